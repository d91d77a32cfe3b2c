// Three ranks over one transport: trainers 0 and 1, rollout 2. Trainer 0 is stopped in mid-push;
// rollout and trainer 1 give that push up, connect anew and push the next version, which covers all
// of the rollout's memory. Then trainer 0 goes on: it must fail, and the version must stay whole.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weightlift/transport/registry.hpp"

namespace {

using namespace weightlift;
using namespace weightlift::transport;

constexpr Bytes kBytes = 96 * MiB;
constexpr int kRollout = 2;
constexpr std::byte kOld{0x11}, kNew{0x22};
constexpr std::chrono::seconds kTimeout(60);

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "abandoned_push: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

/// How much of the rollout's memory holds `value`, looked at every page.
Bytes count(const memory::Arena& arena, std::byte value) {
    constexpr Bytes kPage = 4096;
    Bytes found = 0;
    for (Bytes at = 0; at < kBytes; at += kPage)
        if (static_cast<const volatile std::byte*>(arena.data())[at] == value) found += kPage;
    return found;
}

bool holds_only(const memory::Arena& arena, std::byte value) {
    for (Bytes at = 0; at < kBytes; ++at)
        if (arena.data()[at] != value) return false;
    return true;
}

void finish(Push& push) {
    const mpi::Deadline deadline(kTimeout);
    while (!push.test()) {
        if (deadline.passed()) fail("a push did not end");
        ::sched_yield();
    }
}

/// "ok", or the rollout's key, from rank to rank.
template <class T>
T pass(const mpi::Communicator& world, int from, int to, T value, int tag) {
    std::map<int, mpi::Bytestring> outgoing;
    std::vector<int> sources;
    const auto* const raw = reinterpret_cast<const std::byte*>(&value);
    if (world.rank() == from) outgoing[to] = {raw, raw + sizeof value};
    if (world.rank() == to) sources = {from};
    const auto got = world.exchange(outgoing, sources, tag, mpi::Deadline(kTimeout), "pass");
    if (world.rank() == to) std::memcpy(&value, got.at(from).data(), sizeof value);
    return value;
}

int run(const std::string& name) {
    const auto world = mpi::Communicator::world();
    mpi::Watchdog watchdog;
    const int rank = world.rank();
    const bool writes = rank != kRollout;
    const auto arena = memory::make_host_arena(kBytes);
    std::memset(arena->data(), static_cast<int>(writes ? kOld : std::byte{0}), kBytes);
    VerbsOptions verbs;
    verbs.retry_count = 2;  // trainer 0 is to be told soon
    verbs.retry_timeout = 16;
    const Context context{.world = &world,
                          .watchdog = &watchdog,
                          .timeout = kTimeout,
                          .label = [](int r) { return "rank " + std::to_string(r); },
                          .is_written_to = !writes,
                          .verbs = verbs};
    const auto transport = make_transport(name, context);
    const RegionKey mine = transport->register_memory(*arena);
    LinkTable links;
    if (writes)
        links.destinations = {{kRollout, kBytes}};
    else
        links.sources = {{0, kBytes}, {1, kBytes}};
    transport->connect(links);
    const RegionKey key = pass(world, kRollout, 0, mine, 1);
    const RegionKey key1 = pass(world, kRollout, 1, mine, 2);
    const pid_t stopped = pass(world, 0, kRollout, ::getpid(), 3);

    // Version 1: trainer 0 writes all but a page, trainer 1 that page.
    constexpr Bytes kPage = 4096;
    BoundPlan plan;
    if (rank == 0) {
        plan.destinations = {{kRollout, kBytes, key}};
        plan.copies = {{0, kPage, kBytes - kPage, kPage, kBytes - kPage, 1, kBytes - kPage}};
    } else if (rank == 1) {
        plan.destinations = {{kRollout, kBytes, key1}};
        plan.copies = {{0, 0, kPage, 0, kPage, 1, kPage}};
    } else {
        plan.sources = {0, 1};
    }
    auto push = transport->prepare(std::move(plan));
    world.barrier(mpi::Deadline(kTimeout), "start");
    push->start(1, 1);

    if (rank == 0) {
        std::string told;
        try {
            finish(*push);
        } catch (const TransportError& error) {
            told = error.what();
        }
        std::printf("trainer 0, going on: %s\n", told.c_str());
        if (told.find("rank 2") == std::string::npos) fail("trainer 0 was not told of rank 2");
        world.barrier(mpi::Deadline(kTimeout), "end");
        return 0;
    }
    if (rank == kRollout) {
        while (count(*arena, kOld) < kBytes / 8)
            if (push->test()) fail("the push ended before it could be stopped");
        if (::kill(stopped, SIGSTOP) != 0) fail("cannot stop trainer 0");
    } else {
        finish(*push);
    }
    push.reset();  // trainer 1's has ended, the rollout's is given up
    pass(world, kRollout, 1, 0, 4);

    // Version 2, without trainer 0.
    if (rank == 1) std::memset(arena->data(), static_cast<int>(kNew), kBytes);
    LinkTable anew;
    if (rank == 1)
        anew.destinations = {{kRollout, kBytes}};
    else
        anew.sources = {{1, kBytes}};
    transport->connect(anew);
    BoundPlan second;
    if (rank == 1) {
        second.destinations = {{kRollout, kBytes, key1}};
        second.copies = {{0, 0, kBytes, 0, kBytes, 1, kBytes}};
    } else {
        second.sources = {1};
    }
    const auto next = transport->prepare(std::move(second));
    pass(world, kRollout, 1, 0, 5);
    next->start(2, 2);
    finish(*next);
    if (rank == kRollout) {
        if (!holds_only(*arena, kNew)) fail("version 2 has not arrived whole");
        if (::kill(stopped, SIGCONT) != 0) fail("cannot continue trainer 0");
    }
    world.barrier(mpi::Deadline(kTimeout), "end");
    if (rank == kRollout) {
        if (!holds_only(*arena, kNew)) fail("trainer 0 has written into version 2");
        std::printf("version 2 is whole\n");
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    mpi::Environment environment(&argc, &argv);
    try {
        return run(argc > 1 ? argv[1] : "verbs");
    } catch (const std::exception& error) {
        fail(error.what());
    }
}
