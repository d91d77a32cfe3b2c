// Setting a session up: plan, memory, keys, addresses. Nothing here is timed as part of a push.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "state.hpp"

namespace weightlift::session {

using plan::Transfer;

Session::State::State(const Agreement& a, mpi::Watchdog& w, const SessionInputs& i, PushOptions o)
    : agreement(a),
      watchdog(w),
      inputs(i),
      options(std::move(o)),
      rank(a.world().rank()),
      plan_rank(i.roles.plan_rank[static_cast<std::size_t>(rank)]),
      is_trainer(plan_rank < i.roles.trainers),
      store(i.model, is_trainer ? i.trainer : i.rollout,
            is_trainer ? plan_rank : plan_rank - i.roles.trainers) {}

void Session::State::make_plan() {
    const plan::PlanOptions where =
        plan_options(inputs.topology, inputs.roles, options.minimum_slice);
    const plan::Planner planner(inputs.model, inputs.trainer, inputs.rollout, where);
    received = planner.received_by(plan_rank);
    for (const Transfer& t : received) payload += t.bytes();
    if (has_steps()) {
        received = {};
        plan_steps(planner, where.node);
        return;
    }
    sent = planner.sent_by(plan_rank);
    transfers = received.size();
    sent_digest = planner.digest(sent);
    received_digest = planner.digest(received);
    for (const Transfer& t : sent) bytes_to[mpi_rank(t.dst.rank)] += t.bytes();
    for (const Transfer& t : received) bytes_from[mpi_rank(t.src.rank)] += t.bytes();
}

void Session::State::plan_steps(const plan::Planner& planner, const std::vector<int>& node) {
    plan::StepOptions step_options;
    step_options.staging_limit = options.staging_limit;
    step_options.stages = options.trainer_stages;
    step_options.node = node;
    step_options.fans_out = broadcast_from() > 0;
    const plan::StepPlanner stepper(planner, options.strategy, step_options);
    steps = stepper.part_of(plan_rank);
    staging = steps.staging;
    sent_digest = plan::StepPlanner::digest(steps.sent);
    received_digest = plan::StepPlanner::digest(steps.received);
    for (const plan::StepSegment& s : steps.sent) bytes_to[mpi_rank(s.dst)] += s.bytes();
    for (const plan::StepSegment& s : steps.received) {
        bytes_from[mpi_rank(s.src)] += s.bytes();
        transfers += s.copies.size();
    }
}

void Session::State::check_digest(const mpi::Deadline& deadline) {
    const std::uint64_t by_senders = world().sum(sent_digest, deadline, "plan digest");
    const std::uint64_t by_receivers = world().sum(received_digest, deadline, "plan digest");
    if (by_senders != by_receivers)
        throw Error(ExitCode::Internal,
                    fmt::format("senders' plan digest {:016x} differs from receivers' {:016x}",
                                by_senders, by_receivers));
    digest = by_senders;
}

void Session::State::open_lanes() {
    const auto lane_of = [&](std::string_view name) -> Lane& {
        const auto at = std::find_if(lanes.begin(), lanes.end(),
                                     [&](const Lane& lane) { return lane.name == name; });
        return at != lanes.end()
                   ? *at
                   : lanes.emplace_back(Lane{std::string(name), {}, {}, {}, {}, 0, {}});
    };
    for (const std::string& name : opened_transports()) {
        Lane& lane = lane_of(name);
        lane.transport = transport::make_transport(name, transport_context());
        if (!lane.transport->capabilities().same_host_only) continue;
        for (const auto* peers : {&bytes_to, &bytes_from})
            for (const auto& [peer, bytes] : *peers)
                if (transport_for(peer, rank) == name && node_of(peer) != node_of(rank))
                    throw ConfigError(
                        fmt::format("transport {} works within one host, but {} and {} "
                                    "are on two",
                                    name, agreement.label(rank), agreement.label(peer)));
    }
    for (const auto& [peer, bytes] : bytes_to)
        lane_of(transport_for(rank, peer)).links.destinations.push_back({peer, bytes});
    for (const auto& [peer, bytes] : bytes_from)
        lane_of(transport_for(peer, rank)).links.sources.push_back({peer, bytes});

    if (has_steps()) {
        // Anyone may write to anyone.
        std::vector<int> all(inputs.roles.mpi_rank.size());
        std::iota(all.begin(), all.end(), 0);
        for (Lane& lane : lanes) lane.links.engine_groups = {all};
        return;
    }
    // For backends with windows: all trainers and one engine each, only where this rank takes part.
    const auto begins = inputs.rollout.engine_begins();
    const Rank trainers = inputs.roles.trainers;
    for (std::size_t e = 0; e < begins.size(); ++e) {
        const Rank end = e + 1 < begins.size() ? begins[e + 1] : inputs.rollout.world_size();
        if (!is_trainer && (plan_rank - trainers < begins[e] || plan_rank - trainers >= end))
            continue;
        std::vector<int> group;
        for (Rank r = 0; r < trainers; ++r) group.push_back(mpi_rank(r));
        for (Rank r = begins[e]; r < end; ++r) group.push_back(mpi_rank(trainers + r));
        std::sort(group.begin(), group.end());
        for (Lane& lane : lanes) lane.links.engine_groups.push_back(group);
    }
}

void Session::State::connect() {
    for (Lane& lane : lanes) lane.transport->connect(lane.links);
}

void Session::setup() {
    State& s = *state_;
    const auto timed = [&](record::SetupPhase phase, const char* name, auto work) {
        const auto begin = mpi::Clock::now();
        s.agreement.run(name, work);
        s.setup_ns[static_cast<std::size_t>(phase)] += static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(mpi::Clock::now() - begin)
                .count());
    };
    using record::SetupPhase;
    timed(SetupPhase::Plan, "plan", [&](const mpi::Deadline&) { s.make_plan(); });
    s.agreement.run("plan digest", [&](const mpi::Deadline& d) { s.check_digest(d); });
    s.agreement.run("choice of GPUs", [&](const mpi::Deadline&) { s.choose_gpu(); });
    if (s.options.nccl.mode == transport::NcclMode::Put)
        s.agreement.run("bytes of all ranks",
                        [&](const mpi::Deadline& d) { s.agree_on_gpu_bytes(d); });
    s.agreement.run("choice of transports", [&](const mpi::Deadline& d) {
        s.find_usable(d);
        s.try_reach(d);
    });
    timed(SetupPhase::Connect, "open transports", [&](const mpi::Deadline&) { s.open_lanes(); });
    // Each by itself: what one refuses only one rank knows, and the others would be in the next.
    s.agreement.run("choice of GPUs", [&](const mpi::Deadline& d) { s.check_one_rank_per_gpu(d); });
    s.agreement.run("memory check", [&](const mpi::Deadline& d) { s.check_memory(d); });
    s.agreement.run("memory check", [&](const mpi::Deadline& d) { s.check_gpu_memory(d); });
    timed(SetupPhase::Allocate, "allocate", [&](const mpi::Deadline&) {
        s.store.allocate(s.options.memory, s.arena_options(), s.staging);
    });
    timed(SetupPhase::Register, "register", [&](const mpi::Deadline&) {
        for (Lane& lane : s.lanes) lane.key = lane.transport->register_memory(s.store.arena());
    });
    timed(SetupPhase::Exchange, "key exchange",
          [&](const mpi::Deadline& deadline) { s.exchange_and_bind(deadline); });
    timed(SetupPhase::Connect, "connect", [&](const mpi::Deadline&) { s.connect(); });
    if (s.options.inject.drop > 0) {
        const std::uint64_t mine =
            s.copies > 0 ? static_cast<std::uint64_t>(s.plan_rank) : ~std::uint64_t{0};
        const mpi::Deadline deadline(s.options.timeout);
        s.has_dropped = s.world().min(mine, deadline, "inject") == mine && s.copies > 0;
    }
    timed(SetupPhase::Connect, "prepare", [&](const mpi::Deadline&) {
        std::uint64_t drop = s.has_dropped ? s.options.inject.drop : 0;
        for (Lane& lane : s.lanes) {
            auto& copies = lane.plan.copies;
            const auto leave_out = std::min<std::uint64_t>(drop, copies.size());
            // Segments end at numbers of copies.
            if (s.has_steps())
                for (std::uint64_t i = 0; i < leave_out; ++i) copies[i].rows = 0;
            else
                copies.erase(copies.begin(),
                             copies.begin() + static_cast<std::ptrdiff_t>(leave_out));
            drop -= leave_out;
            for (const plan::Copy& copy : copies) lane.planned_bytes += copy.bytes();
            lane.push = lane.transport->prepare(std::exchange(lane.plan, {}));
        }
        if (s.has_steps()) s.hold_segments();
    });
    if (s.options.verify != Verify::None)
        s.table =
            std::make_unique<FingerprintTable>(s.inputs.model, s.inputs.trainer, s.inputs.rollout);
}

}  // namespace weightlift::session
