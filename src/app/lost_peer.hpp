// How a run with MPI ends, also where not all ranks can agree on it any more.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "weightlift/base/error.hpp"
#include "weightlift/mpi/communicator.hpp"

namespace weightlift::app {

/// Ends all ranks through the launcher, after one message: rank 0 speaks, and the others only where
/// it is rank 0 that is missing.
[[noreturn]] void abort_all(const mpi::Communicator& world, ExitCode code,
                            const std::string& message);

/// ConfigError where the launcher started more tasks than are in this world: its MPI is another.
void require_whole_world(const mpi::Communicator& world);

/// MPI_Init, `body`, MPI_Finalize: `body`'s code. A peer that is lost at the very end costs at most
/// `timeout`.
[[nodiscard]] int run_on_ranks(
    int* argc, char*** argv, std::chrono::nanoseconds timeout,
    const std::function<int(mpi::Communicator& world, mpi::Watchdog& watchdog)>& body);

}  // namespace weightlift::app
