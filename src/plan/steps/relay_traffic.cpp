#include "weightlift/plan/relay_traffic.hpp"

#include <map>
#include <set>
#include <tuple>

#include "relay_ranges.hpp"

namespace weightlift::plan {

namespace {

using namespace steps;

struct Sum {
    Bytes bytes = 0;
    std::uint64_t copies = 0, runs = 0;

    void add(const Copy& copy) {
        const bool is_contiguous =
            copy.src_pitch == copy.row_bytes && copy.dst_pitch == copy.row_bytes;
        bytes += copy.bytes();
        ++copies;
        runs += is_contiguous ? 1 : copy.rows;
    }
    void add(const Sum& other) {
        bytes += other.bytes;
        copies += other.copies;
        runs += other.runs;
    }
};

}  // namespace

std::vector<StepTraffic> relay_traffic(const Planner& planner, const StepOptions& options) {
    const RelayRanges ranges(planner, options);
    std::map<std::tuple<std::uint32_t, Rank, Rank>, Sum> sums;
    std::set<Rank> firsts;
    for (layout::RankSetId id = 0; id < ranges.count(); ++id)
        if (!ranges[id].parameters.empty()) firsts.insert(ranges.first_of(id));
    PieceFinder find_piece(planner.rollout());
    for (const Rank first : firsts)
        for (const Transfer& t : planner.received_by(first)) {
            if (ranges.first_of(planner.rollout().parameter(t.dst.parameter).ranks) != first)
                continue;
            ranges.visit_parts(t, find_piece,
                               [&](layout::RankSetId id, std::uint64_t chunk, const Copy& copy) {
                                   sums[{kEnter, t.src.rank, ranges[id].entry_of(chunk)}].add(copy);
                               });
        }
    for (layout::RankSetId id = 0; id < ranges.count(); ++id) {
        const SharedRange& range = ranges[id];
        // All chunks of a seat go the same way.
        std::map<std::uint64_t, std::pair<std::uint64_t, Sum>> by_seat;
        const auto content = ranges.content_of(range);
        for (std::uint64_t chunk = 0; chunk < content.size(); ++chunk) {
            std::vector<Copy> copies;
            for (const RelayRanges::Part& part : content[chunk]) {
                Copy copy = part.copy;
                const Bytes begin = ranges.address_of(part.parameter);
                copy.src_offset += begin;
                copy.dst_offset += begin;
                append_copy(copies, copy);
            }
            auto& [example, sum] = by_seat[range.chunks.seat(chunk)];
            example = chunk;
            for (const Copy& copy : copies) sum.add(copy);
        }
        for (const auto& [number, entry] : by_seat)
            for (std::size_t group = 0; group < range.groups.size(); ++group)
                for (std::size_t member = 0; member < range.groups.members(group).size();
                     ++member) {
                    const Stop stop = stop_at(range, {group, member}, entry.first);
                    if (stop.before && entry.second.bytes > 0)
                        sums[{stop.step, *stop.before, range.groups.members(group)[member]}].add(
                            entry.second);
                }
    }
    std::vector<StepTraffic> traffic;
    for (const auto& [way, sum] : sums) {
        const auto& [step, src, dst] = way;
        traffic.push_back({step, src, dst, sum.bytes, sum.copies, sum.runs});
    }
    return traffic;
}

}  // namespace weightlift::plan
