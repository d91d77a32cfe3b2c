#include "weightlift/plan/queue_pairs.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace weightlift::plan {
namespace {

/// A request's header is 32 bytes, an entry 16, and devices take a power of two for each.
constexpr Bytes request_bytes(Bytes entries) { return std::bit_ceil(32 + 16 * entries); }
constexpr Bytes kCompletion = 64;

}  // namespace

int default_queue_pairs(std::size_t peers) {
    if (peers <= 16) return 4;
    return peers <= 64 ? 2 : 1;
}

QueuePairs count_queue_pairs(const PlanStatistics& statistics, int asked) {
    constexpr Bytes kSend =
        kQueueDepth * (request_bytes(kGatheredRows) + kCompletion) + kReceives * kCompletion;
    constexpr Bytes kReceive =
        kAnswers * (request_bytes(1) + kCompletion) + kReceives * kCompletion;
    const std::size_t ranks = statistics.sent.size();
    std::vector<std::uint64_t> pairs(ranks, 0);
    std::vector<Bytes> bytes(ranks, 0);
    for (const PairTraffic& pair : statistics.pairs) {
        const auto src = static_cast<std::size_t>(pair.src),
                   dst = static_cast<std::size_t>(pair.dst);
        const auto each = static_cast<std::uint64_t>(
            asked > 0 ? asked
                      : std::min(default_queue_pairs(statistics.fan_out[src]),
                                 default_queue_pairs(statistics.fan_in[dst])));
        pairs[src] += each;
        pairs[dst] += each;
        bytes[src] += each * kSend;
        bytes[dst] += each * kReceive;
    }
    QueuePairs most;
    for (std::size_t r = 0; r < ranks; ++r)
        if (pairs[r] > most.pairs || (pairs[r] == most.pairs && bytes[r] > most.bytes))
            most = {pairs[r], bytes[r], static_cast<Rank>(r)};
    return most;
}

}  // namespace weightlift::plan
