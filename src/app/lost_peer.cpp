#include "lost_peer.hpp"

#include <optional>
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

void require_whole_world(const mpi::Communicator& world) {
    if (const int launched = mpi::launcher_world_size(); launched > world.size())
        throw ConfigError(
            fmt::format("the launcher started {} tasks, but MPI sees a world of {}: "
                        "this program's MPI is not the launcher's",
                        launched, world.size()));
}

int run_on_ranks(int* argc, char*** argv, std::chrono::nanoseconds timeout,
                 const std::function<int(mpi::Communicator&, mpi::Watchdog&)>& body) {
    mpi::Watchdog watchdog;
    mpi::Environment environment(argc, argv);
    std::optional<mpi::Communicator> world(mpi::Communicator::world());
    const int rank = world->rank();
    const int code = body(*world, watchdog);
    // Collective calls without a deadline of their own: a peer may be lost even now.
    const auto guard = watchdog.guard(mpi::Deadline(timeout), [rank] {
        return fmt::format("weightlift: rank {} in finalize: the other ranks did not come", rank);
    });
    world.reset();
    environment.finalize();
    return code;
}

}  // namespace weightlift::app
