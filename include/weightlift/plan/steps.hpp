// Strategies in more than one step: each rank's part of `replica`, `broadcast` and `relay`, in
// segments that wait for each other by counters and never for a barrier. Pure and deterministic:
// both ends of a pair work out the same segments, in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weightlift/plan/copy.hpp"
#include "weightlift/plan/planner.hpp"

namespace weightlift::plan {

enum class Strategy : std::uint8_t { Direct, Replica, Broadcast, Relay };
[[nodiscard]] std::string_view to_string(Strategy strategy);
/// Absent for a name that is none.
[[nodiscard]] std::optional<Strategy> find_strategy(std::string_view name);

struct StepOptions {
    Bytes staging_limit = 2 * GiB;  ///< most bytes of staging a rank
    Bytes chunk = kRotationChunk;   ///< about the bytes of a segment
    /// By plan rank: equal numbers mean the same node. Empty: every rank is a node of its own.
    std::vector<int> node;
    int stages = 1;  ///< pipeline stages of the trainer, equal blocks of ranks
    /// broadcast: roots send each bucket whole and to every rollout rank in one round, for
    /// transports that make one operation of it; else it is passed on from rank to rank.
    bool fans_out = false;
};

/// Copies between two ranks that travel together: when all are placed, the destination's count of
/// its source's segments grows by one. One without copies is a credit: its source's staging, which
/// its destination writes to, is free again.
struct StepSegment {
    Rank src = 0, dst = 0;   ///< plan ranks; equal where a rank cuts out of its own staging
    std::uint32_t step = 0;  ///< index into StepPlanner::steps()
    std::uint32_t round = 0;
    /// Offsets from the arenas' starts; staging begins where the weights end (ArenaMap::bytes()).
    /// Copy::destination is 0.
    std::vector<Copy> copies;
    [[nodiscard]] Bytes bytes() const {
        Bytes sum = 0;
        for (const Copy& copy : copies) sum += copy.bytes();
        return sum;
    }
    friend bool operator==(const StepSegment&, const StepSegment&) = default;
};

/// Segment `segment` of a rank's list, and all after it that go to the same destination, wait until
/// `source` has placed its first `count` segments at this rank. Where source is the rank itself:
/// until the first `count` of its own list have been placed, wherever they go.
struct Gate {
    std::uint32_t segment = 0;
    Rank source = 0;
    std::uint32_t count = 0;
    friend bool operator==(const Gate&, const Gate&) = default;
};

/// One rank's part.
struct StepPart {
    /// In the order of execution; rounds ascend. A segment waits only for segments of smaller
    /// rounds, its own or others', so that there is no cycle.
    std::vector<StepSegment> sent;
    /// Sources ascending, and of each its segments to this rank in its order.
    std::vector<StepSegment> received;
    std::vector<Gate> gates;  ///< by segment, ascending
    Bytes staging = 0;        ///< bytes that are written or read beyond the weights
};

class StepPlanner {
public:
    /// For any strategy but Direct. Keeps a reference to `planner`. ConfigError where the staging
    /// limit is too small for the largest unit that cannot be split, naming it and its bytes.
    StepPlanner(const Planner& planner, Strategy strategy, const StepOptions& options);
    ~StepPlanner();
    StepPlanner(StepPlanner&&) noexcept;
    StepPlanner& operator=(StepPlanner&&) noexcept;

    /// "gather", "write", …
    [[nodiscard]] std::span<const std::string_view> steps() const;
    /// Costs what the rank's own part needs, whatever the number of engines.
    [[nodiscard]] StepPart part_of(Rank plan_rank) const;
    /// Sum of the mixes of these segments: all that is sent gives the same as all that is received.
    [[nodiscard]] static std::uint64_t digest(std::span<const StepSegment> segments);

private:
    struct State;
    std::unique_ptr<const State> state_;
};

}  // namespace weightlift::plan
