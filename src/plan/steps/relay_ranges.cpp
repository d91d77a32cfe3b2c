#include "relay_ranges.hpp"

#include <set>

#include "weightlift/base/hash.hpp"

namespace weightlift::plan::steps {

using layout::Parameter;
using layout::ParameterIndex;
using layout::Piece;
using layout::RankSetId;

RelayRanges::RelayRanges(const Planner& planner, const StepOptions& options)
    : planner_(planner), chunk_(options.chunk) {
    const Layout& rollout = planner.rollout();
    std::vector<std::vector<ParameterIndex>> parameters(rollout.rank_set_count());
    begin_of_.reserve(rollout.parameters().size());
    std::vector<Bytes> ends(rollout.rank_set_count());
    for (ParameterIndex p = 0; p < rollout.parameters().size(); ++p) {
        const Parameter& parameter = rollout.parameter(p);
        parameters[parameter.ranks].push_back(p);
        begin_of_.push_back(ends[parameter.ranks]);
        ends[parameter.ranks] += round_up(parameter.bytes(), kArenaAlignment);
    }
    for (RankSetId id = 0; id < rollout.rank_set_count(); ++id) {
        std::vector<Rank> ranks;
        for (const Rank r : rollout.rank_set(id)) ranks.push_back(planner.trainers() + r);
        Groups groups(ranks, options.node);
        const auto seats = groups.size() * groups.lanes();
        ranges_.push_back({std::move(groups),
                           Chunks(ends[id], seats, options.chunk, splitmix64(id)),
                           std::move(parameters[id]),
                           {},
                           {}});
    }
    find_positions();
}

/// Time of a parameter is measured in what each lane has to take in before it, on the set's first
/// rank: about the same on the others.
void RelayRanges::find_positions() {
    const Layout& rollout = planner_.rollout();
    std::set<Rank> firsts;
    for (RankSetId id = 0; id < ranges_.size(); ++id)
        if (!ranges_[id].parameters.empty()) firsts.insert(rollout.rank_set(id).front());
    std::vector<std::vector<Rank>> among(ranges_.size());
    for (RankSetId id = 0; id < ranges_.size(); ++id)
        for (const Rank first : firsts)
            if (rollout.holds(id, first)) among[id].push_back(first);
    std::vector<Bytes> taken(static_cast<std::size_t>(rollout.world_size()));
    for (ParameterIndex p = 0; p < rollout.parameters().size(); ++p) {
        const RankSetId id = rollout.parameter(p).ranks;
        SharedRange& range = ranges_[id];
        range.begins.push_back(begin_of_[p]);
        range.positions.push_back(taken[static_cast<std::size_t>(rollout.rank_set(id).front())]);
        const Bytes more = ceil_div(rollout.parameter(p).bytes(), range.groups.lanes());
        for (const Rank first : among[id]) taken[static_cast<std::size_t>(first)] += more;
    }
}

std::uint32_t RelayRanges::base_round(const SharedRange& range, std::uint64_t chunk) const {
    const Bytes address = range.chunks.begin(range.chunks.turn(chunk) * range.chunks.seats());
    const auto after = std::upper_bound(range.begins.begin(), range.begins.end(), address);
    const auto i = static_cast<std::size_t>(after - range.begins.begin()) - 1;
    const Bytes position = range.positions[i] + (address - range.begins[i]) / range.groups.lanes();
    return narrow<std::uint32_t>(position / chunk_, "rounds of a plan");
}

std::vector<std::vector<RelayRanges::Part>> RelayRanges::content_of(
    const SharedRange& range) const {
    std::vector<std::vector<Part>> content(range.chunks.count());
    for (const ParameterIndex p : range.parameters) {
        const Parameter& parameter = planner_.rollout().parameter(p);
        const Bytes element = element_bytes(parameter.dtype);
        for (const Piece& piece : parameter.pieces) {
            const Units units(piece, element);
            const Copy whole{0,
                             piece.offset,
                             piece.pitch,
                             piece.offset,
                             piece.pitch,
                             piece.box.rows.size(),
                             piece.box.columns.size() * element};
            visit_chunks(p, piece, units, 0, units.count,
                         [&](std::uint64_t chunk, std::uint64_t from, std::uint64_t to) {
                             content[chunk].push_back({p, units.are_rows
                                                              ? rows_of(whole, from, to - from)
                                                              : bytes_of(whole, from, to - from)});
                         });
        }
    }
    return content;
}

Stop stop_at(const SharedRange& range, const Groups::Seat& seat, std::uint64_t chunk) {
    const Groups& groups = range.groups;
    const auto lane = range.chunks.seat(chunk) % groups.lanes();
    const auto entry = range.chunks.seat(chunk) / groups.lanes();
    const auto hop = (seat.group + groups.size() - entry) % groups.size();
    const auto& members = groups.members(seat.group);
    const auto fan =
        (seat.member + members.size() - groups.member_of_lane(seat.group, lane)) % members.size();
    Stop stop;
    stop.hops = static_cast<std::uint32_t>(hop + fan);
    if (fan > 0) {
        stop.step = kFanOut;
        stop.before = members[(seat.member + members.size() - 1) % members.size()];
    } else if (hop > 0) {
        stop.step = kRelay;
        stop.before = groups.of_lane((seat.group + groups.size() - 1) % groups.size(), lane);
    }
    if (fan == 0 && hop + 1 < groups.size())
        stop.in_ring = groups.of_lane((seat.group + 1) % groups.size(), lane);
    if (fan + 1 < members.size()) stop.in_group = members[(seat.member + 1) % members.size()];
    return stop;
}

}  // namespace weightlift::plan::steps
