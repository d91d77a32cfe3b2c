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

std::string_view Session::State::transport_for(int src, int dst) const {
    if (options.transport != "auto") return options.transport;
    const bool is_near = node_of(src) == node_of(dst);
    for (const std::string& name : usable)
        if (is_near || !transport::transport_capabilities(name).same_host_only) return name;
    throw TransportError(fmt::format("no transport built in reaches from {} to {}",
                                     agreement.label(src), agreement.label(dst)));
}

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

transport::Context Session::State::transport_context() const {
    const auto me = static_cast<std::size_t>(rank);
    transport::VerbsOptions verbs = options.verbs;
    if (options.inject.wrong_key == rank) verbs.fault = transport::VerbsFault::WrongKey;
    if (options.inject.short_region == rank) verbs.fault = transport::VerbsFault::ShortRegion;
    return {.world = &world(),
            .watchdog = &watchdog,
            .timeout = agreement.timeout(),
            .label = [this](int r) { return agreement.label(r); },
            .slice = 0,
            .max_message = 0,
            .local_rank = inputs.topology.local_rank[me],
            .local_size = inputs.topology.node_size[static_cast<std::size_t>(node_of(rank))],
            .is_written_to = !is_trainer,
            .verbs = std::move(verbs)};
}

/// For `auto`: what every rank can use, by order of preference.
void Session::State::find_usable(const mpi::Deadline& deadline) {
    if (options.transport != "auto") {
        if (!moves_memory(transport::transport_capabilities(options.transport)))
            throw ConfigError(fmt::format("--memory {}: transport {} does not move such memory",
                                          memory::to_string(options.memory), options.transport));
        return;
    }
    const bool one_node = inputs.topology.node_size.size() == 1;
    std::string why;
    for (const std::string_view name : transport::transport_names()) {
        const transport::Capabilities c = transport::transport_capabilities(name);
        if (!moves_memory(c)) continue;
        // Asked for by name only: what it demands of the launch is not to be found out by trying.
        if (c.one_rank_per_gpu) continue;
        // Looking for devices costs time: only where they would be used.
        std::string problem;
        if (!one_node || c.same_host_only || usable.empty())
            problem = transport::transport_problem(name, transport_context());
        if (world().max(problem.empty() ? 0 : 1, deadline, "choice of transports") == 0) {
            usable.emplace_back(name);
            continue;
        }
        why += fmt::format("; {}: {}", name, problem.empty() ? "not on all ranks" : problem);
        // One rank's reason is enough: the lowest such rank's.
        const int first =
            world().min(problem.empty() ? world().size() : rank, deadline, "choice of transports");
        if (first == rank) passed_over = fmt::format("{} ({})", problem, agreement.label(rank));
    }
    if (usable.empty())
        throw ConfigError(fmt::format(
            "--memory {}: no transport built in ({}) moves such memory here{}",
            memory::to_string(options.memory), fmt::join(transport::transport_names(), ", "), why));
}

void Session::State::open_lanes() {
    const auto lane_of = [&](std::string_view name) -> Lane& {
        const auto at = std::find_if(lanes.begin(), lanes.end(),
                                     [&](const Lane& lane) { return lane.name == name; });
        return at != lanes.end()
                   ? *at
                   : lanes.emplace_back(Lane{std::string(name), {}, {}, {}, {}, 0, {}});
    };
    // Connecting is collective: every rank opens the same backends, in the same order.
    std::vector<std::string> used;
    if (options.transport != "auto") {
        used = {options.transport};
    } else {
        const bool one_node = inputs.topology.node_size.size() == 1;
        for (const std::string& name : usable) {
            used.push_back(name);
            if (one_node || !transport::transport_capabilities(name).same_host_only) break;
        }
    }
    for (const std::string& name : used) {
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
            lane.plan.copies = plan::rotate_copies(lists, first, plan::kRotationChunk);
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
    s.agreement.run("choice of transports", [&](const mpi::Deadline& d) { s.find_usable(d); });
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
