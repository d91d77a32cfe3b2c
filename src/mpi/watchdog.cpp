#include <condition_variable>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "weightlift/base/error.hpp"
#include "weightlift/mpi/deadline.hpp"

namespace weightlift::mpi {

struct Watchdog::State {
    std::mutex mutex;
    std::condition_variable changed;
    bool stop = false;
    bool armed = false;
    Clock::time_point at{};
    std::function<std::string()> message;
    std::thread thread;  // last: starts when all above exists

    void watch() {
        std::unique_lock lock(mutex);
        while (!stop) {
            if (!armed) {
                changed.wait(lock);
            } else if (Clock::now() < at) {
                changed.wait_until(lock, at);
            } else {
                // The lock stays held: a guard that ends now is too late.
                const std::string line = "weightlift: " + message() + "\n";
                [[maybe_unused]] const auto written =
                    ::write(STDERR_FILENO, line.data(), line.size());
                ::_exit(static_cast<int>(ExitCode::Deadline));
            }
        }
    }
};

Watchdog::Watchdog() : state_(std::make_unique<State>()) {
    state_->thread = std::thread([state = state_.get()] { state->watch(); });
}

Watchdog::~Watchdog() {
    {
        const std::lock_guard lock(state_->mutex);
        state_->stop = true;
    }
    state_->changed.notify_all();
    state_->thread.join();
}

Watchdog::Guard Watchdog::guard(const Deadline& deadline, std::function<std::string()> message) {
    {
        const std::lock_guard lock(state_->mutex);
        WEIGHTLIFT_ENSURES(!state_->armed);
        state_->armed = true;
        state_->at = deadline.at();
        state_->message = std::move(message);
    }
    state_->changed.notify_all();
    return Guard(*this);
}

void Watchdog::disarm() {
    // The thread may sleep on until the old time: it then finds nothing armed.
    const std::lock_guard lock(state_->mutex);
    state_->armed = false;
}

}  // namespace weightlift::mpi
