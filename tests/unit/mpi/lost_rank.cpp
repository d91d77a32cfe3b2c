// Program of lost_rank_test.sh: rank VICTIM kills or stops itself, the others meet in a barrier and
// print the verdict. mpi_lost_rank kill|stop VICTIM
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "weightlift/mpi/communicator.hpp"

int main(int argc, char** argv) {
    using namespace weightlift::mpi;
    const Environment environment(&argc, &argv);
    auto world = Communicator::world();
    world.set_labels([](int r) { return "rank " + std::to_string(r) + " (host n1)"; });
    const int victim = std::atoi(argv[2]);
    world.barrier(Deadline(std::chrono::seconds(30)), "start");
    if (world.rank() == victim) std::raise(argv[1] == std::string("kill") ? SIGKILL : SIGSTOP);
    try {
        world.barrier(Deadline(std::chrono::milliseconds(500)), "meet");
        std::printf("rank %d: the barrier ended\n", world.rank());
    } catch (const weightlift::DeadlineError& error) {
        std::printf("survivor: %s\n", error.what());
    }
    std::fflush(stdout);
    // The others print too before the first one ends them.
    const Deadline all_printed(std::chrono::seconds(4));
    while (!all_printed.passed()) {
    }
    world.abort(weightlift::ExitCode::Deadline);
}
