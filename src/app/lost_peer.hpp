// How a run with MPI ends where not all ranks can agree on it any more.
#pragma once

#include <string>

#include "weightlift/base/error.hpp"
#include "weightlift/mpi/communicator.hpp"

namespace weightlift::app {

/// Ends all ranks through the launcher, after one message: rank 0 speaks, and the others only where
/// it is rank 0 that is missing.
[[noreturn]] void abort_all(const mpi::Communicator& world, ExitCode code,
                            const std::string& message);

}  // namespace weightlift::app
