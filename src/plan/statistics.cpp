#include "weightlift/plan/statistics.hpp"

#include <algorithm>
#include <bit>
#include <map>

#include "weightlift/plan/copy.hpp"

namespace weightlift::plan {

namespace {

Rank argmax(const std::vector<Bytes>& values) {
    return static_cast<Rank>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

Rank PlanStatistics::busiest_sender() const { return argmax(sent); }
Rank PlanStatistics::busiest_receiver() const { return argmax(received); }
Bytes PlanStatistics::port_bytes() const {
    const auto s = static_cast<std::size_t>(busiest_sender());
    const auto r = static_cast<std::size_t>(busiest_receiver());
    return sent.empty() ? 0 : std::max(sent[s], received[r]);
}

PlanStatistics gather_statistics(const Planner& planner) {
    PlanStatistics stats;
    const auto world = static_cast<std::size_t>(planner.world_size());
    stats.sent.resize(world);
    stats.received.resize(world);
    stats.fan_in.resize(world);
    stats.fan_out.resize(world);
    stats.runs_sent.resize(world);

    std::vector<ArenaMap> sources;
    for (Rank r = 0; r < planner.trainers(); ++r) sources.emplace_back(planner.trainer(), r);
    for (Rank dst = planner.trainers(); dst < planner.world_size(); ++dst) {
        std::vector<Transfer> transfers = planner.received_by(dst);
        stats.digest += planner.digest(transfers);
        stats.transfers += transfers.size();
        std::stable_sort(
            transfers.begin(), transfers.end(),
            [](const Transfer& a, const Transfer& b) { return a.src.rank < b.src.rank; });
        const ArenaMap arena(planner.rollout(), dst - planner.trainers());
        for_each_pair(transfers, [&](std::span<const Transfer> run) {
            const Rank src = run.front().src.rank;
            const auto copies =
                merge_transfers(run, 0, sources[static_cast<std::size_t>(src)], arena);
            PairTraffic pair{src, dst, 0, copies.size(), 0};
            for (const Copy& copy : copies) {
                pair.bytes += copy.bytes();
                const auto bucket = static_cast<std::size_t>(std::bit_width(copy.row_bytes) - 1);
                stats.sizes.runs[bucket] += copy.rows;
                stats.sizes.bytes[bucket] += copy.bytes();
                stats.runs_sent[static_cast<std::size_t>(src)] += copy.rows;
                stats.runs += copy.rows;
                pair.runs += copy.rows;
            }
            stats.copies += pair.copies;
            stats.bytes += pair.bytes;
            stats.sent[static_cast<std::size_t>(src)] += pair.bytes;
            stats.received[static_cast<std::size_t>(dst)] += pair.bytes;
            ++stats.fan_out[static_cast<std::size_t>(src)];
            ++stats.fan_in[static_cast<std::size_t>(dst)];
            stats.pairs.push_back(pair);
        });
    }
    return stats;
}

}  // namespace weightlift::plan
