// SIGTERM and SIGINT: a time limit, a requeue, scancel or Ctrl-C wants the job gone, and SIGKILL
// follows.
#pragma once

#include <chrono>
#include <csignal>
#include <optional>

#include "weightlift/base/error.hpp"

namespace weightlift::app {

/// Of a run that was told to end by this signal, as if it had ended the process itself.
[[nodiscard]] constexpr ExitCode terminated_by(int signal) { return ExitCode{128 + signal}; }
[[nodiscard]] constexpr bool is_termination(ExitCode code) {
    return code == terminated_by(SIGTERM) || code == terminated_by(SIGINT);
}

/// From now on the first of each signal is only noted, so that a run can close its file; a second
/// one ends the process.
void note_termination();

/// Which signal was noted, as an error with its code; none so far: nothing. The ranks agree on it
/// like on any other.
[[nodiscard]] std::optional<Error> termination();
/// Throws it.
void end_if_terminated();

/// Sleeps, but not on after a signal that was noted.
void sleep_unless_terminated(std::chrono::nanoseconds duration);

}  // namespace weightlift::app
