#include "termination.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>

namespace weightlift::app {

namespace {

volatile std::sig_atomic_t is_terminated = 0;

void note(int) { is_terminated = 1; }

}  // namespace

void note_termination() {
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    if (sigaction(SIGTERM, &action, nullptr) != 0)
        throw Error(ExitCode::Internal, fmt::format("sigaction: {}", std::strerror(errno)));
}

void end_if_terminated() {
    if (is_terminated != 0)
        throw Error(kTerminated, "SIGTERM: a time limit, a requeue, or someone who cancelled it");
}

void sleep_unless_terminated(std::chrono::nanoseconds duration) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(100);
    for (const auto until = Clock::now() + duration; is_terminated == 0;) {
        const std::chrono::nanoseconds left = until - Clock::now();
        if (left.count() <= 0) return;
        std::this_thread::sleep_for(std::min(left, kSlice));
    }
}

}  // namespace weightlift::app
