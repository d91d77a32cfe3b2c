// From a plan to what transports take: keys of the memory that this rank writes to, addresses, and
// what waits for what.
#include <algorithm>

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

std::vector<ParameterEntry> entries(const layout::Layout& layout, const ArenaMap& map,
                                    std::span<const ParameterIndex> parameters) {
    std::vector<ParameterEntry> entries;
    for (const ParameterIndex p : parameters) entries.push_back(make_entry(layout, map, p));
    return entries;
}

}  // namespace

/// Who is written to tells each writer its key and what lies there; writers know what to expect.
void Session::State::exchange_and_bind(const mpi::Deadline& deadline) {
    std::map<int, std::vector<Transfer>> by_source;
    for (const Transfer& t : received) by_source[mpi_rank(t.src.rank)].push_back(t);
    std::map<int, mpi::Bytestring> outgoing;
    for (const auto& [peer, bytes] : bytes_from) {
        KeyTable told{arena_bytes(), lane_with(peer).key, {}};
        // Where there are steps, staging begins where all parameters end.
        told.parameters =
            has_steps() ? entries(store.layout(), store.map(), store.map().parameters())
                        : entries(store.layout(), store.map(), written_parameters(by_source[peer]));
        outgoing.emplace(peer, serialize(told));
    }
    std::vector<int> expected;
    for (const auto& [peer, bytes] : bytes_to) expected.push_back(peer);
    std::map<int, KeyTable> told;
    for (const auto& [peer, bytes] :
         world().exchange(outgoing, expected, kKeyTag, deadline, "key exchange"))
        told.emplace(peer, deserialize(bytes));

    for (Lane& lane : lanes) {
        lane.plan.window = options.window;
        for (const auto& link : lane.links.sources) lane.plan.sources.push_back(link.rank);
    }
    if (has_steps())
        bind_steps(told);
    else
        bind_transfers(told);
    for (const Lane& lane : lanes) copies += lane.plan.copies.size();
    sent = {};
    received = {};
}

void Session::State::bind_transfers(const std::map<int, KeyTable>& told) {
    std::map<std::string, std::vector<std::vector<plan::Copy>>> copies_of;
    plan::for_each_pair(sent, [&](std::span<const Transfer> list) {
        const int peer = mpi_rank(list.front().dst.rank);
        const KeyTable& offered = told.at(peer);
        const ArenaMap map(inputs.rollout, list.front().dst.rank - inputs.roles.trainers);
        check_parameters(entries(inputs.rollout, map, written_parameters(list)), offered.parameters,
                         agreement.label(peer));
        Lane& lane = lane_with(peer);
        const auto index = static_cast<std::uint32_t>(lane.plan.destinations.size());
        lane.plan.destinations.push_back({peer, offered.region_bytes, offered.key});
        copies_of[lane.name].push_back(plan::merge_transfers(list, index, store.map(), map));
    });
    for (Lane& lane : lanes) {
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
    }
}

void Session::State::bind_steps(const std::map<int, KeyTable>& told) {
    std::map<int, std::uint32_t> index;  // in the lane that serves the pair
    for (Lane& lane : lanes)
        for (const auto& link : lane.links.destinations) {
            const Rank to = plan_of(link.rank);
            const bool to_trainer = to < inputs.roles.trainers;
            const layout::Layout& layout = to_trainer ? inputs.trainer : inputs.rollout;
            const ArenaMap map(layout, to_trainer ? to : to - inputs.roles.trainers);
            const KeyTable& offered = told.at(link.rank);
            check_parameters(entries(layout, map, map.parameters()), offered.parameters,
                             agreement.label(link.rank));
            index[link.rank] = static_cast<std::uint32_t>(lane.plan.destinations.size());
            lane.plan.destinations.push_back({link.rank, offered.region_bytes, offered.key});
        }
    for (const plan::StepSegment& segment : steps.sent) {
        const int peer = mpi_rank(segment.dst);
        transport::BoundPlan& plan = lane_with(peer).plan;
        for (plan::Copy copy : segment.copies) {
            copy.destination = index.at(peer);
            plan.copies.push_back(copy);
        }
        plan.segments.push_back({plan.copies.size(), index.at(peer), segment.round});
    }
    for (Lane& lane : lanes) {
        lane.plan.broadcast_from = broadcast_from();
        lane.plan.signals.resize(lane.plan.sources.size());
    }
    for (const plan::StepSegment& segment : steps.received) {
        const int peer = mpi_rank(segment.src);
        transport::BoundPlan& plan = lane_with(peer).plan;
        const auto at = std::find(plan.sources.begin(), plan.sources.end(), peer);
        ++plan.signals[static_cast<std::size_t>(at - plan.sources.begin())];
    }
}

Lane& Session::State::lane_with(int peer) {
    const std::string_view name = transport_for(rank, peer);
    const auto at = std::find_if(lanes.begin(), lanes.end(),
                                 [&](const Lane& lane) { return lane.name == name; });
    WEIGHTLIFT_ENSURES(at != lanes.end());
    return *at;
}

/// Once all pushes are prepared.
void Session::State::hold_segments() {
    std::vector<std::size_t> carrier_of;
    for (const plan::StepSegment& segment : steps.sent)
        carrier_of.push_back(
            static_cast<std::size_t>(&lane_with(mpi_rank(segment.dst)) - lanes.data()));
    std::vector<HeldSegments::Carrier> carriers;
    for (const Lane& lane : lanes) {
        HeldSegments::Carrier& carrier = carriers.emplace_back();
        carrier.push = lane.push.get();
        for (const auto& link : lane.links.sources) carrier.sources.push_back(link.rank);
    }
    held.emplace(steps, plan_rank, carrier_of, std::move(carriers),
                 [this](Rank plan) { return mpi_rank(plan); });
    steps = {};
}

}  // namespace weightlift::session
