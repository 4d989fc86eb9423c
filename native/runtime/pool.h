// Threads that work through the calls of a program together.
//
// Each call's units are handed out in chunks by a counter. A call is over when all its units are
// done, whoever did them, so nobody waits for a thread that the system has taken off its core. The
// caller works too; threads that find nothing to do spin for a short while and then sleep.
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

// One call ready to run: units [0, units) in chunks of `grain`.
struct Task {
    Kernel kernel;
    const void* args;
    int64_t units;
    int64_t grain;
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
    struct alignas(64) Progress {
        std::atomic<int64_t> next{0};
        std::atomic<int64_t> done{0};
    };

    void serve(int number);
    void end();
    void work(const std::vector<Task>& tasks, ThreadScratch& scratch, double* seconds);
    void take_chunks(const Task& task, Progress& progress, ThreadScratch& scratch);
    void alone(const std::vector<Task>& tasks, double* seconds);
    void prepare(size_t count);
    bool forked() const;

    const int threads_;
    const int64_t process_;
    std::vector<std::unique_ptr<ThreadScratch>> scratch_;
    std::vector<std::thread> workers_;

    std::unique_ptr<Progress[]> progress_;
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
