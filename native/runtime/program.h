// A recorded pass: calls of kernels, to be replayed as often as one likes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "pool.h"
#include "weights.h"

namespace draftwalk {

// Threads, the kernels they run and the memory of weights: one per back end.
class Runtime {
public:
    Runtime(int threads, const Kernels& kernels) : kernels(kernels), pool_(threads) {}
    ~Runtime() { release(); }

    int threads() const { return pool_.threads(); }

    // Memory whose size depends on a replay's data; `*workspace()` is set before the replay. All
    // calls share it: what a call leaves in it is there until the next one that uses it.
    void* const* workspace() const { return &workspace_; }

    // Runs the tasks with at least so many bytes of workspace; see Pool::run.
    void run(const std::vector<Task>& tasks, int64_t workspace, double* seconds);

    const Kernels& kernels;
    WeightMemory weights;

private:
    void release();

    Pool pool_;
    std::mutex running_;
    void* workspace_ = nullptr;
    int64_t workspace_size_ = 0;
};

using Units = int64_t (*)(const void* args);

struct Call {
    Kernel kernel;
    void* args;
    Units units;           // null for a constant number
    int64_t constant;
    int64_t grain;         // units that are handed out together
    const char* label;     // of profiles; a string that lives as long as the program
    float** out;           // where the output is set, of calls that can quantise
    Quantised* quantised;  // where the output's int8 companion is set, null if it has none
    Units workspace;       // bytes of it that the call needs, null if none
    Fetch fetch = nullptr;
};

class Program {
public:
    explicit Program(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
    ~Program() { clear(); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // Appends a call and returns its number. `units` are asked at every replay.
    template <class Args>
    int64_t add(Kernel Kernels::*kernel, const Args& args, Units units, int64_t grain,
                const char* label, Units workspace = nullptr) {
        return append(kernel, args, units, 0, grain, label, workspace);
    }

    // Appends a call with a constant number of units.
    template <class Args>
    int64_t add(Kernel Kernels::*kernel, const Args& args, int64_t units, int64_t grain,
                const char* label) {
        return append(kernel, args, nullptr, units, grain, label, nullptr);
    }

    // Arguments of a call, where they stay until the program is cleared.
    template <class Args>
    const Args* args(int64_t call) const {
        return static_cast<const Args*>(calls_.at(static_cast<size_t>(call)).args);
    }

    // Lets a call write its output's int8 companion too.
    void quantise(int64_t call, const Quantised& into);

    // Lets it write nothing but that.
    void only_quantise(int64_t call);

    // Lets threads that wait for a call to begin ask the memory for what they will read.
    void fetch_ahead(int64_t call, Fetch fetch) {
        calls_.at(static_cast<size_t>(call)).fetch = fetch;
    }

    int64_t size() const { return static_cast<int64_t>(calls_.size()); }
    const Kernels& kernels() const { return runtime_->kernels; }
    int threads() const { return runtime_->threads(); }
    void* const* workspace() const { return runtime_->workspace(); }

    void replay() { run(nullptr); }
    std::vector<std::pair<const char*, double>> replay_timed();
    void clear();

private:
    template <class Args, class = void>
    struct HasCompanion : std::false_type {};
    template <class Args>
    struct HasCompanion<Args, std::void_t<decltype(std::declval<Args&>().quantised)>>
        : std::true_type {};

    template <class Args>
    int64_t append(Kernel Kernels::*kernel, const Args& args, Units units, int64_t constant,
                   int64_t grain, const char* label, Units workspace) {
        static_assert(std::is_trivially_copyable_v<Args>, "arguments are copied as bytes");
        Call call{};
        call.kernel = kernels().*kernel;
        call.args = copy(&args, sizeof(Args));
        call.units = units;
        call.constant = constant;
        call.grain = grain;
        call.label = label;
        call.workspace = workspace;
        if constexpr (HasCompanion<Args>::value) {
            call.out = &static_cast<Args*>(call.args)->out;
            call.quantised = &static_cast<Args*>(call.args)->quantised;
        }
        return push(call);
    }

    void* copy(const void* args, size_t size);
    int64_t push(const Call& call);
    void run(double* seconds);

    std::shared_ptr<Runtime> runtime_;
    std::vector<Call> calls_;
    std::vector<Task> tasks_;
};

// `units` of arguments with a member that says it: units_of<NormArgs, &NormArgs::rows>.
template <class Args, int64_t Args::*member>
int64_t units_of(const void* args) {
    return static_cast<const Args*>(args)->*member;
}

// `units` of arguments with a row table: a unit is a row of the pass.
template <class Args>
int64_t units_are_rows(const void* args) {
    return static_cast<const Args*>(args)->rows->size;
}

}  // namespace draftwalk
