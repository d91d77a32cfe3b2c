// Deadlines: every wait has one. Steady clock; expiry is a value to test, never a signal.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace weightlift::mpi {

using Clock = std::chrono::steady_clock;

class Deadline {
public:
    explicit Deadline(std::chrono::nanoseconds timeout)
        : timeout_(timeout), at_(Clock::now() + timeout) {}
    [[nodiscard]] bool passed() const { return Clock::now() >= at_; }
    [[nodiscard]] std::chrono::nanoseconds timeout() const { return timeout_; }
    [[nodiscard]] Clock::time_point at() const { return at_; }

private:
    std::chrono::nanoseconds timeout_;
    Clock::time_point at_;
};

/// Guards calls that cannot be polled (MPI_Win_flush, MPI_Win_create, MPI_Finalize). While a Guard
/// lives past its deadline, the watchdog's thread prints `message` and ends the process with exit
/// code 5 (ExitCode::Deadline) by _exit; the launcher ends the rest.
class Watchdog {
public:
    Watchdog();
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    class Guard {
    public:
        explicit Guard(Watchdog& watchdog) : watchdog_(watchdog) {}
        ~Guard() { watchdog_.disarm(); }
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;

    private:
        Watchdog& watchdog_;
    };
    /// One guard at a time. `message` must say rank, host, phase and peer; it is made only on
    /// expiry, on the watchdog's thread.
    [[nodiscard]] Guard guard(const Deadline& deadline, std::function<std::string()> message);

private:
    void disarm();
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace weightlift::mpi
