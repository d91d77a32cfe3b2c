// Statistics of a whole plan, made by streaming over its transfers: who sends how much to whom, in
// which sizes. Memory: O(pairs that talk), never O(ranks^2).
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "weightlift/base/bytes.hpp"
#include "weightlift/plan/planner.hpp"

namespace weightlift::plan {

/// Row sizes by power of two: bucket b counts contiguous runs of [2^b, 2^(b+1)) bytes.
struct SizeHistogram {
    std::array<std::uint64_t, 64> runs{};
    std::array<Bytes, 64> bytes{};
};

struct PairTraffic {
    Rank src = 0, dst = 0;  ///< plan ranks
    Bytes bytes = 0;
    std::uint64_t copies = 0;  ///< after merging
    std::uint64_t runs = 0;    ///< contiguous runs after merging
};

struct PlanStatistics {
    Bytes bytes = 0;  ///< payload of all rollouts
    std::uint64_t transfers = 0;
    std::uint64_t copies = 0;  ///< after merging
    std::uint64_t runs = 0;    ///< contiguous runs after merging: a lower bound on messages
    std::uint64_t digest = 0;
    std::vector<Bytes> sent, received;           ///< per plan rank
    std::vector<std::uint32_t> fan_out, fan_in;  ///< peers per plan rank
    std::vector<std::uint64_t> runs_sent;        ///< contiguous runs per plan rank
    std::vector<PairTraffic> pairs;              ///< by dst, then src
    SizeHistogram sizes;

    /// Rank with the most bytes sent (received); ties go to the lowest rank.
    [[nodiscard]] Rank busiest_sender() const;
    [[nodiscard]] Rank busiest_receiver() const;
    /// max(sent, received) over ranks: bytes through the busiest port where each rank has its own.
    [[nodiscard]] Bytes port_bytes() const;
};

[[nodiscard]] PlanStatistics gather_statistics(const Planner& planner);

}  // namespace weightlift::plan
