// Program of lost_peer_test.sh: lost_peer TRANSPORT HOW. Rank 0 pushes to rank 1 again and again;
// in the third push rank 1 (HOW: kill, stop) or both (HOW: both) are lost.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "weightlift/cuda/device.hpp"
#include "weightlift/memory/registry.hpp"
#include "weightlift/transport/registry.hpp"

#include "staging.hpp"

namespace {

using namespace weightlift;
using namespace weightlift::transport;

constexpr Bytes kBytes = 64 * MiB;

void run(mpi::Communicator& world, mpi::Watchdog& watchdog, const std::string& name,
         const std::string& how) {
    const bool is_host = transport_capabilities(name).host_memory;
    // Setting up with GPUs takes its time.
    const std::chrono::seconds timeout(is_host ? 2 : 10);
    const auto label = [](int r) { return "rank " + std::to_string(r) + " (host n1)"; };
    world.set_labels(label);
    memory::ArenaOptions options;
    // As in the conformance suite. What is put is a range; what is sent, rows that are packed.
    const char* const mode = std::getenv("WEIGHTLIFT_TEST_NCCL_MODE");
    const bool puts = mode != nullptr && std::strcmp(mode, "put") == 0;
    if (puts) options.cuda.method = memory::DeviceMemory::Vmm;
    if (!is_host)
        options.cuda.device =
            cuda::choose_device(world.rank(), static_cast<int>(cuda::devices().size()));
    const auto arena = memory::make_arena(
        is_host ? memory::MemoryKind::Host : memory::MemoryKind::Cuda, kBytes, options);
    const auto transport =
        make_transport(name, {.world = &world,
                              .watchdog = &watchdog,
                              .timeout = timeout,
                              .label = label,
                              .shares_staging = shares_staging(world.rank()),
                              .nccl = {puts ? NcclMode::Put : NcclMode::SendRecv},
                              .cuda = options.cuda});
    const RegionKey key = transport->register_memory(*arena);
    const bool writes = world.rank() == 0;
    LinkTable links{{}, {}, {{0, 1}}};
    (writes ? links.destinations : links.sources).push_back({1 - world.rank(), kBytes});
    transport->connect(links);

    const auto* const raw = reinterpret_cast<const std::byte*>(&key);
    std::map<int, mpi::Bytestring> outgoing;
    std::vector<int> sources;
    if (writes)
        sources = {1};
    else
        outgoing[0] = {raw, raw + sizeof key};
    const auto keys = world.exchange(outgoing, sources, 1, mpi::Deadline(timeout), "keys");
    BoundPlan plan;
    if (writes) {
        RegionKey theirs;
        std::memcpy(&theirs, keys.at(1).data(), sizeof theirs);
        plan.destinations = {{1, kBytes, theirs}};
        plan.copies = {puts ? Copy{0, 0, kBytes, 0, kBytes, 1, kBytes}
                            : Copy{0, 0, 8192, 0, 8192, kBytes / 8192, 4096}};
    } else {
        plan.sources = {0};
    }
    const auto push = transport->prepare(std::move(plan));
    for (std::uint64_t epoch = 1;; ++epoch) {
        const mpi::Deadline deadline(timeout);
        world.barrier(deadline, "start of push");
        push->start(epoch, epoch);
        if (epoch == 3 && (!writes || how == "both")) {
            (void)push->test();
            std::raise(how == "stop" ? SIGSTOP : SIGKILL);
        }
        while (!push->test()) {
            world.listen();
            if (deadline.passed()) {
                std::string event = "pending";
                for (const int r : push->pending()) event += " " + label(r);
                world.expire(deadline, "push", event);
            }
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    mpi::Watchdog watchdog;
    const mpi::Environment environment(&argc, &argv);
    auto world = mpi::Communicator::world();
    try {
        run(world, watchdog, argv[1], argv[2]);
    } catch (const Error& error) {
        std::printf("survivor: %s\n", error.what());
        std::fflush(stdout);
        world.abort(error.code());
    }
}
