// Threads that work through the calls of a program together.
//
// Each thread has a share of a call's units and takes it in chunks, one after the other, as memory
// likes it; then it helps with what is left of the others' shares. A call is over when all its units
// are done, whoever did them, so nobody waits for a thread that the system has taken off its core.
// The caller works too; threads that find nothing to do spin for a short while and then sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "scratch.h"

namespace draftwalk {

// Asks the memory for what a unit will read first; may be called before the call's turn.
using Fetch = void (*)(const void* args, int64_t unit);

// One call ready to run: units [0, units) in chunks of `grain`.
struct Task {
    Kernel kernel;
    const void* args;
    int64_t units;
    int64_t grain;
    Fetch fetch;  // or null
};

// Waiting for something that another thread makes true.
class Gate {
public:
    template <class Ready>
    void wait(const Ready& ready);
    void open();  // after it was made true

private:
    std::atomic<int> sleepers_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
};

class Pool {
public:
    explicit Pool(int threads);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    int threads() const { return threads_; }

    // Runs the tasks one after the other. If `seconds` is given, it takes the time of each.
    // Throws std::bad_alloc if a kernel found no memory. One run at a time.
    void run(const std::vector<Task>& tasks, double* seconds = nullptr);

private:
    struct alignas(64) Share {  // of one thread in one call
        std::atomic<int64_t> next{0};
        int64_t last = 0;
    };
    struct alignas(64) Progress {
        std::atomic<int64_t> done{0};
    };

    void serve(int number);
    void end();
    void work(const std::vector<Task>& tasks, int thread, double* seconds);
    void take_chunks(const Task& task, size_t number, int thread);
    void alone(const std::vector<Task>& tasks, double* seconds);
    void prepare(const std::vector<Task>& tasks);
    int64_t share_begin(const Task& task, int thread) const;
    Share& share(size_t task, int thread) {
        return shares_[task * static_cast<size_t>(threads_) + static_cast<size_t>(thread)];
    }
    bool forked() const;

    const int threads_;
    const int64_t process_;
    std::vector<std::unique_ptr<ThreadScratch>> scratch_;
    std::vector<std::thread> workers_;

    std::unique_ptr<Progress[]> progress_;
    std::unique_ptr<Share[]> shares_;
    size_t prepared_ = 0;
    const std::vector<Task>* tasks_ = nullptr;
    std::atomic<bool> failed_{false};

    // Even: nothing to do. Odd: a run is open, and workers may join.
    alignas(64) std::atomic<uint64_t> generation_{0};
    alignas(64) std::atomic<int> inside_{0};
    std::atomic<bool> ending_{false};
    // On the heap, because a forked child must not destroy what others seem to wait at.
    std::unique_ptr<Gate> begun_ = std::make_unique<Gate>();
    std::unique_ptr<Gate> moved_ = std::make_unique<Gate>();
};

}  // namespace draftwalk
