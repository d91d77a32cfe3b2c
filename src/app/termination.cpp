#include "termination.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>

namespace weightlift::app {

namespace {

volatile std::sig_atomic_t noted = 0;

void note(int signal) { noted = signal; }

}  // namespace

void note_termination() {
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    for (const int signal : {SIGTERM, SIGINT})
        if (sigaction(signal, &action, nullptr) != 0)
            throw Error(ExitCode::Internal, fmt::format("sigaction: {}", std::strerror(errno)));
}

std::optional<Error> termination() {
    if (noted == SIGTERM)
        return Error(terminated_by(SIGTERM),
                     "SIGTERM: a time limit, a requeue, or someone who cancelled it");
    if (noted == SIGINT) return Error(terminated_by(SIGINT), "SIGINT: someone interrupted it");
    return std::nullopt;
}

void end_if_terminated() {
    if (const auto error = termination()) throw Error(*error);
}

void sleep_unless_terminated(std::chrono::nanoseconds duration) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(100);
    for (const auto until = Clock::now() + duration; noted == 0;) {
        const std::chrono::nanoseconds left = until - Clock::now();
        if (left.count() <= 0) return;
        std::this_thread::sleep_for(std::min(left, kSlice));
    }
}

}  // namespace weightlift::app
