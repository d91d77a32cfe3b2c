// What relay moves in all, without each rank's part.
#pragma once

#include <cstdint>
#include <vector>

#include "weightlift/plan/planner.hpp"
#include "weightlift/plan/steps.hpp"

namespace weightlift::plan {

struct StepTraffic {
    std::uint32_t step = 0;  ///< index into StepPlanner::steps()
    Rank src = 0, dst = 0;   ///< plan ranks
    Bytes bytes = 0;
    std::uint64_t copies = 0;  ///< at most: copies of a segment may merge further
    std::uint64_t runs = 0;    ///< contiguous runs of these copies
};

/// By step, src, dst: what the segments of StepPlanner(planner, Strategy::Relay, options) add up
/// to.
[[nodiscard]] std::vector<StepTraffic> relay_traffic(const Planner& planner,
                                                     const StepOptions& options);

}  // namespace weightlift::plan
