#include "pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "rounding.h"

namespace draftwalk {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto SPIN = std::chrono::microseconds(50);
constexpr int LOOKS = 64;  // between two looks at the clock

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

template <class Ready>
void Gate::wait(const Ready& ready) {
    if (ready()) return;
    const auto until = Clock::now() + SPIN;
    do {
        for (int n = 0; n < LOOKS; ++n) {
            pause();
            if (ready()) return;
        }
    } while (Clock::now() < until);
    // A sleeper counts itself before it looks once more, and whoever opens looks at the count after
    // the change: one of the two sees the other.
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    changed_.wait(lock, ready);
    sleepers_.fetch_sub(1);
}

void Gate::open() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleepers_.load() == 0) return;
    { std::lock_guard lock(mutex_); }
    changed_.notify_all();
}

Pool::Pool(int threads) : threads_(std::max(threads, 1)), process_(getpid()) {
    for (int n = 0; n < threads_; ++n) scratch_.push_back(std::make_unique<ThreadScratch>());
    try {
        for (int n = 1; n < threads_; ++n) workers_.emplace_back(&Pool::serve, this, n);
    } catch (...) {  // the system gives no more threads
        end();
        throw;
    }
}

Pool::~Pool() {
    if (forked()) {  // the threads stayed in the parent; there is nobody to join
        for (std::thread& worker : workers_) worker.detach();
        begun_.release();
        moved_.release();
        return;
    }
    end();
}

void Pool::end() {
    ending_.store(true);
    begun_->open();
    for (std::thread& worker : workers_) worker.join();
}

bool Pool::forked() const { return process_ != getpid(); }

void Pool::run(const std::vector<Task>& tasks, double* seconds) {
    failed_.store(false, std::memory_order_relaxed);
    if (threads_ == 1 || forked()) {
        alone(tasks, seconds);
    } else {
        prepare(tasks);
        tasks_ = &tasks;
        generation_.fetch_add(1);
        begun_->open();
        work(tasks, 0, seconds);
        generation_.fetch_add(1);
        moved_->wait([this] { return inside_.load() == 0; });
    }
    if (failed_.load(std::memory_order_relaxed)) throw std::bad_alloc();
}

void Pool::alone(const std::vector<Task>& tasks, double* seconds) {
    const PlainRounding rounding;
    for (const Task& task : tasks) {
        const auto start = seconds ? Clock::now() : Clock::time_point();
        if (task.units > 0) {
            scratch_[0]->reset();
            task.kernel(task.args, 0, task.units, *scratch_[0]);
        }
        if (seconds) *seconds++ = since(start);
    }
}

void Pool::prepare(const std::vector<Task>& tasks) {
    if (tasks.size() > prepared_) {
        prepared_ = std::max(tasks.size(), 2 * prepared_);
        progress_ = std::make_unique<Progress[]>(prepared_);
        shares_ = std::make_unique<Share[]>(prepared_ * static_cast<size_t>(threads_));
    }
    for (size_t n = 0; n < tasks.size(); ++n) {
        progress_[n].done.store(0, std::memory_order_relaxed);
        for (int thread = 0; thread < threads_; ++thread) {
            Share& part = share(n, thread);
            part.next.store(share_begin(tasks[n], thread), std::memory_order_relaxed);
            part.last = share_begin(tasks[n], thread + 1);
        }
    }
}

// Shares are whole chunks, as equal as can be.
int64_t Pool::share_begin(const Task& task, int thread) const {
    const int64_t chunks = (task.units + task.grain - 1) / task.grain;
    return std::min(chunks * thread / threads_ * task.grain, task.units);
}

void Pool::serve(int number) {
    uint64_t seen = 0;
    while (true) {
        begun_->wait([&] {
            const uint64_t now = generation_.load();
            return ending_.load() || (now % 2 == 1 && now != seen);
        });
        if (ending_.load()) return;
        // Joining counts only if the run is still open afterwards: then the caller waits for us.
        inside_.fetch_add(1);
        const uint64_t now = generation_.load();
        if (now % 2 == 1 && now != seen) {
            seen = now;
            work(*tasks_, number, nullptr);
        }
        if (inside_.fetch_sub(1) == 1) moved_->open();
    }
}

void Pool::work(const std::vector<Task>& tasks, int thread, double* seconds) {
    const PlainRounding rounding;
    for (size_t n = 0; n < tasks.size(); ++n) {
        const auto start = seconds ? Clock::now() : Clock::time_point();
        const int64_t units = tasks[n].units;
        take_chunks(tasks[n], n, thread);
        if (n + 1 < tasks.size() && tasks[n + 1].fetch) {
            const int64_t first = share_begin(tasks[n + 1], thread);
            if (first < tasks[n + 1].units) tasks[n + 1].fetch(tasks[n + 1].args, first);
        }
        moved_->wait([&] { return progress_[n].done.load() >= units; });
        if (seconds) *seconds++ = since(start);
    }
}

void Pool::take_chunks(const Task& task, size_t number, int thread) {
    ThreadScratch& scratch = *scratch_[static_cast<size_t>(thread)];
    int64_t done = 0;
    for (int turn = 0; turn < threads_; ++turn) {
        Share& part = share(number, (thread + turn) % threads_);
        while (part.next.load(std::memory_order_relaxed) < part.last) {
            const int64_t first = part.next.fetch_add(task.grain, std::memory_order_relaxed);
            if (first >= part.last) break;
            const int64_t last = std::min(first + task.grain, part.last);
            try {
                scratch.reset();
                task.kernel(task.args, first, last, scratch);
            } catch (const std::bad_alloc&) {
                failed_.store(true, std::memory_order_relaxed);
            }
            done += last - first;
        }
    }
    if (done > 0 && progress_[number].done.fetch_add(done) + done == task.units) moved_->open();
}

}  // namespace draftwalk
