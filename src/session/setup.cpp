// Setting a session up: plan, memory, keys, addresses. Nothing here is timed as part of a push.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/session/key_exchange.hpp"

#include "state.hpp"

namespace weightlift::session {

using layout::ParameterIndex;
using plan::ArenaMap;
using plan::Transfer;

namespace {

constexpr int kKeyTag = 73;

std::vector<ParameterIndex> written_parameters(std::span<const Transfer> transfers) {
    std::vector<ParameterIndex> parameters;
    for (const Transfer& t : transfers) parameters.push_back(t.dst.parameter);
    std::sort(parameters.begin(), parameters.end());
    parameters.erase(std::unique(parameters.begin(), parameters.end()), parameters.end());
    return parameters;
}

}  // namespace

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
    plan::PlanOptions plan_options;
    plan_options.minimum_slice = options.minimum_slice;
    for (const int mpi : inputs.roles.mpi_rank) plan_options.node.push_back(node_of(mpi));
    const plan::Planner planner(inputs.model, inputs.trainer, inputs.rollout,
                                std::move(plan_options));
    sent = planner.sent_by(plan_rank);
    received = planner.received_by(plan_rank);
    transfers = received.size();
    digest = planner.digest(is_trainer ? sent : received);
    for (const Transfer& t : sent) bytes_to[mpi_rank(t.dst.rank)] += t.bytes();
    for (const Transfer& t : received) bytes_from[mpi_rank(t.src.rank)] += t.bytes();
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

void Session::State::exchange_and_bind(const mpi::Deadline& deadline) {
    // Rollouts tell each of their trainers what it is going to write to. Trainers know what to
    // expect.
    std::map<int, mpi::Bytestring> outgoing;
    std::vector<int> expected;
    for (const auto& [peer, bytes] : bytes_to) expected.push_back(peer);
    if (!is_trainer) {
        std::map<int, std::vector<Transfer>> by_source;
        for (const Transfer& t : received) by_source[mpi_rank(t.src.rank)].push_back(t);
        for (const auto& [peer, list] : by_source) {
            KeyTable told{store.bytes(), {}, {}};
            for (const Lane& lane : lanes)
                if (lane.name == transport_for(peer, rank)) told.key = lane.key;
            for (const ParameterIndex p : written_parameters(list))
                told.parameters.push_back(make_entry(inputs.rollout, store.map(), p));
            outgoing.emplace(peer, serialize(told));
        }
    }
    const auto tables = world().exchange(outgoing, expected, kKeyTag, deadline, "key exchange");

    std::map<std::string, std::vector<std::vector<plan::Copy>>> copies_of;
    plan::for_each_pair(sent, [&](std::span<const Transfer> list) {
        const Rank rollout_rank = list.front().dst.rank - inputs.roles.trainers;
        const int peer = mpi_rank(list.front().dst.rank);
        const KeyTable told = deserialize(tables.at(peer));
        const ArenaMap map(inputs.rollout, rollout_rank);
        std::vector<ParameterEntry> wanted;
        for (const ParameterIndex p : written_parameters(list))
            wanted.push_back(make_entry(inputs.rollout, map, p));
        check_parameters(wanted, told.parameters, agreement.label(peer));
        for (Lane& lane : lanes) {
            if (lane.name != transport_for(rank, peer)) continue;
            const auto index = static_cast<std::uint32_t>(lane.plan.destinations.size());
            lane.plan.destinations.push_back({peer, told.region_bytes, told.key});
            copies_of[lane.name].push_back(plan::merge_transfers(list, index, store.map(), map));
        }
    });
    for (Lane& lane : lanes) {
        lane.plan.window = options.window;
        for (const auto& link : lane.links.sources) lane.plan.sources.push_back(link.rank);
        auto& lists = copies_of[lane.name];
        if (lists.empty()) continue;
        if (options.order == Order::Rotated) {
            const auto first = plan::first_destination(
                static_cast<std::uint64_t>(plan_rank),
                static_cast<std::uint64_t>(inputs.roles.trainers), lists.size());
            lane.plan.copies =
                plan::rotate_copies(lists, first, lane.transport->capabilities().turn);
        } else {
            for (auto& list : lists)
                lane.plan.copies.insert(lane.plan.copies.end(), list.begin(), list.end());
        }
        copies += lane.plan.copies.size();
    }
    sent = {};
    received = {};
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
    s.agreement.run("plan digest", [&](const mpi::Deadline& deadline) {
        const std::uint64_t by_senders =
            s.world().sum(s.is_trainer ? s.digest : 0, deadline, "plan digest");
        const std::uint64_t by_receivers =
            s.world().sum(s.is_trainer ? 0 : s.digest, deadline, "plan digest");
        if (by_senders != by_receivers)
            throw Error(ExitCode::Internal,
                        fmt::format("senders' plan digest {:016x} differs from receivers' {:016x}",
                                    by_senders, by_receivers));
        s.digest = by_senders;
    });
    s.agreement.run("choice of GPUs", [&](const mpi::Deadline&) { s.choose_gpu(); });
    s.agreement.run("choice of transports", [&](const mpi::Deadline& d) {
        s.find_usable(d);
        s.try_reach(d);
    });
    timed(SetupPhase::Connect, "open transports", [&](const mpi::Deadline&) { s.open_lanes(); });
    s.agreement.run("memory check", [&](const mpi::Deadline& d) {
        s.check_one_rank_per_gpu(d);
        s.check_memory(d);
        s.check_gpu_memory(d);
    });
    timed(SetupPhase::Allocate, "allocate",
          [&](const mpi::Deadline&) { s.store.allocate(s.options.memory, s.arena_options()); });
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
            copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(leave_out));
            drop -= leave_out;
            for (const plan::Copy& copy : copies) lane.planned_bytes += copy.bytes();
            lane.push = lane.transport->prepare(std::exchange(lane.plan, {}));
        }
    });
    if (s.options.verify != Verify::None)
        s.table =
            std::make_unique<FingerprintTable>(s.inputs.model, s.inputs.trainer, s.inputs.rollout);
}

}  // namespace weightlift::session
