// SIGTERM: a time limit, a requeue or scancel wants the job gone, and SIGKILL follows.
#pragma once

#include <chrono>
#include <csignal>

#include "weightlift/base/error.hpp"

namespace weightlift::app {

/// Of a run that was told to end, as if the signal had ended the process itself.
inline constexpr ExitCode kTerminated{128 + SIGTERM};

/// From now on the first SIGTERM is only noted, so that a run can close its file; a second one ends
/// the process.
void note_termination();

/// Error with kTerminated after a SIGTERM that was noted. The ranks agree on it like on any other.
void end_if_terminated();

/// Sleeps, but not on after a SIGTERM that was noted.
void sleep_unless_terminated(std::chrono::nanoseconds duration);

}  // namespace weightlift::app
