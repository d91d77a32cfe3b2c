// What became slower or faster: the ranks and phases whose change accounts for that of the push.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weightlift/compare/launch.hpp"

namespace weightlift::compare {

/// One phase of one rank, before and after: medians over launches of the launches' medians.
struct Cause {
    std::int32_t rank = -1;
    std::string role, host, nic;
    record::Phase phase = record::Phase::Wire;
    double base_ns = 0, new_ns = 0;
    bool is_waiting = false;  ///< a rollout's wire: it waits for what its trainers do
};

/// Where ranks ended last: the rank that was the slowest in most launches.
struct Slowest {
    std::int32_t rank = -1;
    std::string host, nic;
    std::size_t launches = 0;  ///< in which it was
};

/// Phases that changed by at least half of `shift_ns` in its direction, the greatest change first.
/// Waiting is named only where nothing that a rank does itself changed so much. Where no phase did
/// at all, the one that changed most, if any did in that direction. Overlapping phases
/// (source_busy, pause, cpu) and what is outside the push (verify) are left out.
[[nodiscard]] std::vector<Cause> find_causes(std::span<const Launch* const> base,
                                             std::span<const Launch* const> next, double shift_ns);

/// "host n7" or "NIC mlx5_3" where all of several ranks that cause it share it and other ranks do
/// not; else "".
[[nodiscard]] std::string in_common(std::span<const Cause> causes,
                                    std::span<const record::RankInfo> ranks);

[[nodiscard]] Slowest find_slowest(std::span<const Launch* const> launches);

}  // namespace weightlift::compare
