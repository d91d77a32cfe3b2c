#include "lost_peer.hpp"

#include <chrono>
#include <thread>

#include <fmt/format.h>

namespace weightlift::app {

void abort_all(const mpi::Communicator& world, ExitCode code, const std::string& message) {
    const bool has_root = message.find(world.label(0)) == std::string::npos;
    // Rank 0 is to have said it before the launcher ends it.
    if (world.rank() != 0 && has_root) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (world.rank() == 0 || !has_root) fmt::print(stderr, "weightlift: {}\n", message);
    world.abort(code);
}

}  // namespace weightlift::app
