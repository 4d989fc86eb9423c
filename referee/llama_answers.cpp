// Answers prompts with llama.cpp and its own speculation, one after the other.
//
//     llama_answers TARGET THREADS CONTEXT [DRAFTER N_MAX]
//
// Reads lines "TEMPERATURE SEED TOKENS ID ID ID ..." from stdin; temperature 0 is greedy. Writes
// for each a line of JSON: the new tokens, the milliseconds until the first of them and from there
// to the last, the steps behind the first, and drafts: how many were verified, their tokens, and
// how many of these stood. `build_llama_answers.py` compiles it against the native llama.cpp.
//
// The loop is that of llama.cpp's examples/speculative-simple, without printing and files;
// sampling, drafting and verifying are its library's.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common.h"
#include "log.h"
#include "sampling.h"
#include "speculative.h"

namespace {

constexpr llama_seq_id SEQUENCE = 0;

struct Question {
    float temperature;
    uint32_t seed;
    int tokens;
    llama_tokens prompt;
};

struct Answer {
    llama_tokens tokens;
    int64_t prompt_us = 0, decode_us = 0;
    int steps = 0, verified = 0, drafted = 0, accepted = 0;
};

Question parse(const std::string& line) {
    std::istringstream words(line);
    Question question;
    words >> question.temperature >> question.seed >> question.tokens;
    for (llama_token id; words >> id;) question.prompt.push_back(id);
    if (question.prompt.empty()) throw std::runtime_error("a prompt has tokens");
    return question;
}

common_params settings(const std::string& target, int threads, int context) {
    common_params params;
    params.model.path = target;
    params.n_ctx = context;
    params.n_gpu_layers = 0;
    params.fit_params = false;  // to the memory of devices that are not used
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads;
    return params;
}

void draft_with(common_params& params, const std::string& drafter, int n_max) {
    params.speculative.types = {COMMON_SPECULATIVE_TYPE_DRAFT_DFLASH};
    common_params_speculative_draft& draft = params.speculative.draft;
    draft.mparams.path = drafter;
    draft.n_max = n_max;
    draft.n_gpu_layers = 0;
    draft.cpuparams = params.cpuparams;
    draft.cpuparams_batch = params.cpuparams_batch;
}

// A target, and a drafter if there is one.
class Models {
public:
    explicit Models(common_params& params) : params_(params) {
        const auto limits = common_speculative_get_output_limits(
            params.n_batch, params.n_parallel, common_speculative_n_max(&params.speculative));
        params.n_outputs_max = limits.total;
        params.n_outputs_max_per_seq = limits.per_seq;
        target_ = common_init_from_params(params);
        if (target_->context() == nullptr) throw std::runtime_error("cannot load the target");
        if (common_context_can_seq_rm(context()) != COMMON_CONTEXT_SEQ_RM_TYPE_PART)
            throw std::runtime_error("this target cannot take rows back one by one");
        if (params.speculative.draft.mparams.path.empty()) return;
        common_params of_drafter = common_base_params_to_speculative(params);
        drafter_ = common_speculative_init_from_params(of_drafter, target_->model(), context());
        params.speculative.draft.ctx_tgt = context();
        params.speculative.draft.ctx_dft = drafter_->context();
        speculation_.reset(common_speculative_init(params.speculative, 1));
        if (!speculation_) throw std::runtime_error("cannot draft with this drafter");
    }

    Answer answer(const Question& question) {
        forget(0);
        common_params_sampling sampling = params_.sampling;
        const bool greedy = question.temperature == 0.0f;
        sampling.samplers = {greedy ? COMMON_SAMPLER_TYPE_TOP_K : COMMON_SAMPLER_TYPE_TEMPERATURE};
        sampling.top_k = 1;
        sampling.temp = question.temperature;
        sampling.seed = question.seed;
        common_sampler_ptr sampler(common_sampler_init(target_->model(), sampling));

        Answer answer;
        const int64_t start = ggml_time_us();
        read(question.prompt);
        llama_token last = sample_one(sampler.get(), answer);
        const int64_t first = ggml_time_us();
        llama_tokens text = question.prompt;
        if (speculation_) common_speculative_begin(speculation_.get(), SEQUENCE, text);
        while (!ended(last) && static_cast<int>(answer.tokens.size()) < question.tokens) {
            const int left = question.tokens - static_cast<int>(answer.tokens.size());
            const llama_tokens found = step(sampler.get(), text, last, left - 1, answer);
            for (const llama_token token : found) {
                text.push_back(last);
                last = token;
                answer.tokens.push_back(token);
                if (ended(token)) break;
            }
            forget(static_cast<llama_pos>(text.size()));
        }
        answer.prompt_us = first - start;
        answer.decode_us = ggml_time_us() - first;
        return answer;
    }

private:
    llama_context* context() const { return target_->context(); }

    bool ended(llama_token token) const {
        return llama_vocab_is_eog(llama_model_get_vocab(target_->model()), token);
    }

    // Drops what stands from a place on.
    void forget(llama_pos from) {
        llama_memory_seq_rm(llama_get_memory(context()), SEQUENCE, from, -1);
        if (drafter_) {
            llama_memory_seq_rm(llama_get_memory(drafter_->context()), SEQUENCE, from, -1);
        }
    }

    void process(common_batch& batch) {
        if (llama_process(context(), LLAMA_PROCESS_TYPE_DECODE, batch.get()) != 0)
            throw std::runtime_error("a pass of the target failed");
        if (speculation_ && !common_speculative_process(speculation_.get(), batch))
            throw std::runtime_error("the drafter did not learn a pass");
    }

    void read(const llama_tokens& prompt) {
        const size_t most = static_cast<size_t>(params_.n_batch);
        for (size_t start = 0; start < prompt.size(); start += most) {
            common_batch batch(context());
            for (size_t n = start; n < std::min(prompt.size(), start + most); ++n)
                batch.add(prompt[n], static_cast<llama_pos>(n), SEQUENCE, n + 1 == prompt.size());
            process(batch);
        }
    }

    llama_token sample_one(common_sampler* sampler, Answer& answer) {
        const llama_token token = common_sampler_sample(sampler, context(), -1);
        common_sampler_accept(sampler, token, true);
        answer.tokens.push_back(token);
        return token;
    }

    // One pass over the last token and a draft of at most `room`; what the text gains.
    llama_tokens step(common_sampler* sampler, const llama_tokens& text, llama_token last, int room,
                      Answer& answer) {
        const llama_pos place = static_cast<llama_pos>(text.size());
        llama_tokens draft;
        if (speculation_ && room > 0) {
            common_speculative_get_draft_params(speculation_.get(), SEQUENCE) = {
                /* .drafting = */ true,
                /* .n_max    = */ room,
                /* .pos0     = */ place,
                /* .id_last  = */ last,
                /* .prompt   = */ &text,
                /* .result   = */ &draft,
            };
            common_speculative_draft(speculation_.get());
            llama_memory_seq_rm(llama_get_memory(drafter_->context()), SEQUENCE, place, -1);
        }
        common_batch batch(context());
        batch.add(last, place, SEQUENCE, true);
        for (size_t n = 0; n < draft.size(); ++n)
            batch.add(draft[n], place + 1 + static_cast<llama_pos>(n), SEQUENCE, true);
        process(batch);
        llama_tokens found = common_sampler_sample_and_accept_n(sampler, context(), draft);
        ++answer.steps;
        if (!draft.empty()) {
            const size_t stood = found.size() - 1;
            common_speculative_accept(speculation_.get(), SEQUENCE, static_cast<uint16_t>(stood));
            ++answer.verified;
            answer.drafted += static_cast<int>(draft.size());
            answer.accepted += static_cast<int>(stood);
        }
        return found;
    }

    common_params& params_;
    common_init_result_ptr target_;
    common_speculative_init_result_ptr drafter_;
    common_speculative_ptr speculation_;
};

void tell(const Answer& answer) {
    std::printf("{\"tokens\": [");
    for (size_t n = 0; n < answer.tokens.size(); ++n)
        std::printf(n ? ", %d" : "%d", answer.tokens[n]);
    std::printf("], \"prompt_ms\": %.3f, \"decode_ms\": %.3f, \"steps\": %d, \"verified\": %d, "
                "\"drafted\": %d, \"accepted\": %d}\n",
                1e-3 * static_cast<double>(answer.prompt_us),
                1e-3 * static_cast<double>(answer.decode_us), answer.steps, answer.verified,
                answer.drafted, answer.accepted);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4 && argc != 6) {
        std::fprintf(stderr, "llama_answers TARGET THREADS CONTEXT [DRAFTER N_MAX]\n");
        return 2;
    }
    const auto tell_errors = [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
    };
    llama_log_set(tell_errors, nullptr);
    common_log_set_verbosity_thold(LOG_LEVEL_ERROR);
    try {
        llama_backend_init();
        common_params params = settings(argv[1], std::stoi(argv[2]), std::stoi(argv[3]));
        if (argc == 6) draft_with(params, argv[4], std::stoi(argv[5]));
        Models models(params);
        std::puts("{\"ready\": true}");
        std::fflush(stdout);
        for (std::string line; std::getline(std::cin, line);) tell(models.answer(parse(line)));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
