#include "weightlift/session/session.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "state.hpp"

namespace weightlift::session {

using record::kNotMeasured;
using record::Phase;

namespace {

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               mpi::Clock::now().time_since_epoch())
        .count();
}

std::int64_t cpu_ns() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// One rank's moments of a push, in rank 0's clock. Gathered after it.
struct Moments {
    std::int64_t released = 0, posted = 0, arrived = 0, committed = 0;
    std::uint64_t visibility = kNotMeasured;  ///< of the time until arrived
    std::uint64_t cpu = 0, clock_error = 0;
};

}  // namespace

Session::Session(const Agreement& agreement, mpi::Watchdog& watchdog, const SessionInputs& inputs,
                 PushOptions options)
    : state_(std::make_unique<State>(agreement, watchdog, inputs, std::move(options))) {}
Session::~Session() = default;

void Session::close() {
    state_->agreement.run("closing", [&](const mpi::Deadline&) { state_->lanes.clear(); });
}

std::optional<std::uint64_t> Session::version() const { return state_->committed; }

std::string Session::State::waited_for() const {
    std::vector<std::string> names;
    for (const Lane& lane : lanes)
        for (const int peer : lane.push->pending()) names.push_back(agreement.label(peer));
    return fmt::format("{} {}", is_trainer ? "completion at" : "arrival from", name_some(names));
}

template <class Posted>
void Session::State::run_lanes(std::uint64_t version, const mpi::Deadline& deadline,
                               bool is_crowded, Posted posted) try {
    for (Lane& lane : lanes) lane.push->start(version, epoch);
    if (held) held->start();
    posted();
    std::uint64_t idle = 0;
    const auto all_done = [&] {
        if (held) held->allow();
        bool done = true;
        for (Lane& lane : lanes) done = lane.push->test() && done;
        return done;
    };
    while (!all_done()) {
        world().listen();
        if (deadline.passed()) world().expire(deadline, "push", waited_for());
        if (is_crowded && copies == 0 && ++idle > 64)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        else
            sched_yield();
    }
} catch (const TransportError&) {
    // The others wait for bytes that will not come.
    world().raise_alarm();
    throw;
}

record::Sample Session::push(std::uint64_t version, bool is_warmup) {
    State& s = *state_;
    const mpi::Communicator& world = s.world();
    const Injection& inject = s.options.inject;
    const bool is_checked = s.options.verify != Verify::None;
    // A process that waits must not take the core from one that copies where there are not enough.
    const auto on_node = s.inputs.topology.node_size[static_cast<std::size_t>(s.node_of(s.rank))];
    // All processors of the node: a rank that is bound to one would count that one. And one for
    // the kernel, which moves the bytes of software devices.
    const bool is_crowded = on_node >= ::sysconf(_SC_NPROCESSORS_ONLN);

    s.committed.reset();
    s.agreement.run("fill", [&](const mpi::Deadline&) {
        memory::Arena& arena = s.store.arena();
        if (s.is_trainer && (is_checked || s.epoch == 0)) arena.fill(s.store.blocks(), version);
        if (!s.is_trainer && is_checked) arena.poison(s.store.blocks());
        if (s.is_trainer && is_checked) {
            s.trainer_sums.assign(s.store.blocks().size(), 0);
            arena.fingerprint(s.store.blocks(), s.trainer_sums);
        }
    });
    ++s.epoch;
    ClockOffset clock;
    s.agreement.run("clock", [&](const mpi::Deadline& deadline) {
        clock = measure_clock(world, s.inputs.topology, deadline);
    });

    Moments at;
    std::int64_t opened = 0;
    s.agreement.run("push", [&](const mpi::Deadline& deadline) {
        const std::int64_t cpu_before = cpu_ns();
        opened = now_ns();
        world.barrier(deadline, "push (starting barrier)");
        at.released = now_ns();
        if (inject.kill && inject.kill->first == s.rank && inject.kill->second == s.epoch)
            raise(SIGKILL);
        if (inject.delay && inject.delay->first == s.rank)
            std::this_thread::sleep_for(inject.delay->second);
        s.run_lanes(version, deadline, is_crowded, [&] { at.posted = now_ns(); });
        at.arrived = now_ns();
        for (const Lane& lane : s.lanes)
            if (const auto took = lane.push->visibility_time())
                at.visibility = (at.visibility == kNotMeasured ? 0 : at.visibility) +
                                static_cast<std::uint64_t>(took->count());
        if (!s.is_trainer) s.committed = version;
        at.committed = now_ns();
        at.cpu = static_cast<std::uint64_t>(cpu_ns() - cpu_before);
    });
    const std::int64_t closed = now_ns();
    s.agreement.run("completions", [&](const mpi::Deadline&) {
        for (const Lane& lane : s.lanes)
            if (lane.push->completed_bytes() != lane.planned_bytes * s.epoch)
                throw TransportError(fmt::format("{}: {} bytes completed of {} planned", lane.name,
                                                 lane.push->completed_bytes(),
                                                 lane.planned_bytes * s.epoch));
    });

    for (std::int64_t* t : {&at.released, &at.posted, &at.arrived, &at.committed})
        *t += clock.offset_ns;
    at.clock_error = clock.error_ns;
    const mpi::Deadline deadline(s.options.timeout);
    const auto all = world.gather(at, deadline, "samples");
    record::Sample sample;
    sample.version = version;
    sample.warmup = is_warmup;
    if (s.rank != 0) return sample;

    std::int64_t first_release = all.front().released, last_release = first_release,
                 last_commit = 0;
    for (std::size_t r = 0; r < all.size(); ++r) {
        first_release = std::min(first_release, all[r].released);
        last_release = std::max(last_release, all[r].released);
        sample.clock_error_ns = std::max(sample.clock_error_ns, all[r].clock_error);
        if (s.inputs.roles.side(static_cast<int>(r)) == layout::Side::Rollout)
            last_commit = std::max(last_commit, all[r].committed);
    }
    const auto span = [](std::int64_t from, std::int64_t to) {
        return static_cast<std::uint64_t>(std::max<std::int64_t>(0, to - from));
    };
    sample.time_ns = span(first_release, last_commit);
    sample.closed_ns = span(opened, closed);
    sample.release_skew_ns = span(first_release, last_release);
    for (std::size_t r = 0; r < all.size(); ++r) {
        const Moments& m = all[r];
        const bool is_rollout = s.inputs.roles.side(static_cast<int>(r)) == layout::Side::Rollout;
        sample.rank_time_ns.push_back(span(first_release, m.committed));
        record::PhaseTimes phases;
        phases.fill(kNotMeasured);
        const auto set = [&](Phase phase, std::uint64_t ns) {
            phases[static_cast<std::size_t>(phase)] = ns;
        };
        set(Phase::Post, span(m.released, m.posted));
        // The wire's time ends where making the bytes visible begins.
        const bool was_flushed = m.visibility != kNotMeasured;
        set(Phase::Wire, span(m.posted, m.arrived) - (was_flushed ? m.visibility : 0));
        set(Phase::Visibility, m.visibility);
        set(Phase::Cpu, m.cpu);
        if (is_rollout) {
            set(Phase::Commit, span(m.arrived, m.committed));
            set(Phase::Pause, span(m.released, m.committed));
        } else {
            set(Phase::SourceBusy, span(m.released, m.arrived));
        }
        sample.phase_ns.push_back(phases);
    }
    return sample;
}

std::uint64_t Session::reference_copy_ns() {
    State& s = *state_;
    Bytes bytes = 0;
    for (const Lane& lane : s.lanes) bytes += lane.planned_bytes;
    const Bytes piece = std::min(bytes, GiB);
    std::unique_ptr<memory::Arena> from, to;
    s.agreement.run("reference", [&](const mpi::Deadline&) {
        from = memory::make_host_arena(piece);
        to = memory::make_host_arena(piece);
        if (piece > 0) std::memset(from->data(), 1, piece);
    });
    const mpi::Deadline deadline(s.options.timeout);
    // Median against median: the first round, which maps pages, is a warm-up.
    std::vector<std::uint64_t> rounds;
    for (int round = 0; round < 6; ++round) {
        s.world().barrier(deadline, "reference");
        const std::int64_t begin = now_ns();
        for (Bytes left = bytes; left > 0; left -= std::min(left, piece))
            std::memcpy(to->data(), from->data(), std::min(left, piece));
        const auto took = static_cast<std::uint64_t>(now_ns() - begin);
        const std::uint64_t slowest = s.world().max(took, deadline, "reference");
        if (round > 0) rounds.push_back(slowest);
    }
    std::sort(rounds.begin(), rounds.end());
    return rounds[rounds.size() / 2];
}

}  // namespace weightlift::session
