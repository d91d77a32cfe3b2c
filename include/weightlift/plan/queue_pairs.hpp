// How many queue pairs a plan takes where each rank has a NIC of its own: pure, so that `plan` says
// before a run what verbs will open.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightlift/plan/statistics.hpp"

namespace weightlift::plan {

/// Per pair of ranks and of NICs where none were asked for: several for few peers, so that one does
/// not limit a fast port; one for many, whose state a NIC would have to fetch again and again. The
/// smaller of both ends' counts.
[[nodiscard]] int default_queue_pairs(std::size_t peers);

/// What each queue pair is made for by default.
inline constexpr int kQueueDepth = 256;  ///< work requests outstanding
inline constexpr int kGatheredRows = 16;
inline constexpr int kAnswers = 6;    ///< outstanding on the receiving end
inline constexpr int kReceives = 18;  ///< waiting at either end

/// More on one NIC than their caches are known to hold.
inline constexpr std::uint64_t kManyQueuePairs = 4096;

struct QueuePairs {
    std::uint64_t pairs = 0;  ///< on the NIC of the rank with the most
    Bytes bytes = 0;          ///< of their queues there: requests, receives, completions
    Rank rank = 0;            ///< plan rank
};
/// `asked` per pair of ranks; 0: the default.
[[nodiscard]] QueuePairs count_queue_pairs(const PlanStatistics& statistics, int asked = 0);

}  // namespace weightlift::plan
