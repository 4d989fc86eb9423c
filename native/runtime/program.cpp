#include "program.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

namespace draftwalk {

namespace {

constexpr std::align_val_t ALIGNMENT{64};

}  // namespace

void Runtime::run(const std::vector<Task>& tasks, int64_t workspace, double* seconds) {
    std::lock_guard one(running_);
    if (workspace > workspace_size_) {
        release();
        workspace_ = ::operator new(static_cast<size_t>(workspace), ALIGNMENT);
        workspace_size_ = workspace;
    }
    pool_.run(tasks, seconds);
}

void Runtime::release() {
    ::operator delete(workspace_, ALIGNMENT);
    workspace_ = nullptr;
    workspace_size_ = 0;
}

void* Program::copy(const void* args, size_t size) {
    void* place = ::operator new(size, ALIGNMENT);
    std::memcpy(place, args, size);
    return place;
}

int64_t Program::push(const Call& call) {
    if (call.kernel == nullptr) {
        ::operator delete(call.args, ALIGNMENT);
        throw std::runtime_error(std::string("no kernel for ") + call.label);
    }
    calls_.push_back(call);
    calls_.back().grain = std::max<int64_t>(call.grain, 1);
    return size() - 1;
}

void Program::quantise(int64_t call, const Quantised& into) {
    Quantised* companion = calls_.at(static_cast<size_t>(call)).quantised;
    if (companion == nullptr) throw std::logic_error("this call does not quantise");
    *companion = into;
}

void Program::only_quantise(int64_t call) {
    const Call& one = calls_.at(static_cast<size_t>(call));
    if (one.quantised == nullptr || one.quantised->values == nullptr)
        throw std::logic_error("this call would write nothing");
    *one.out = nullptr;
}

void Program::run(double* seconds) {
    tasks_.clear();
    int64_t needed = 0;
    for (const Call& call : calls_) {
        const int64_t units = call.units ? call.units(call.args) : call.constant;
        tasks_.push_back({call.kernel, call.args, units, call.grain, call.fetch});
        if (call.workspace) needed = std::max(needed, call.workspace(call.args));
    }
    runtime_->run(tasks_, needed, seconds);
}

std::vector<std::pair<const char*, double>> Program::replay_timed() {
    std::vector<double> seconds(calls_.size());
    run(seconds.data());
    std::vector<std::pair<const char*, double>> times;
    for (size_t n = 0; n < calls_.size(); ++n) times.emplace_back(calls_[n].label, seconds[n]);
    return times;
}

void Program::clear() {
    for (const Call& call : calls_) ::operator delete(call.args, ALIGNMENT);
    calls_.clear();
}

}  // namespace draftwalk
