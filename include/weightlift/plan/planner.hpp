// The planner: a pure, deterministic function of two layouts. Every rank replays it and keeps its
// own part; nothing is planned on rank 0 and sent around.
//
// Rule of `direct`: each rollout parameter is cut into cells on which the set of trainers that hold
// it is constant. A cell is cut by rows into slices over its holders, in proportion to their
// shares, rotated by (tensor, destination), none below the minimum slice. Shares are equal where
// holders are equally loaded; otherwise load is levelled over all cells (least squares, which for
// this kind of constraint is also the smallest maximum). A holder in the destination's own process
// comes first, then holders on its node, then those on its rail.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weightlift/layout/layout.hpp"
#include "weightlift/plan/transfer.hpp"

namespace weightlift::plan {

using layout::Layout;
using layout::ModelSpec;

struct PlanOptions {
    Bytes minimum_slice = 256 * KiB;
    /// Optional, by plan rank: equal numbers mean the same process (a rollout that is a trainer).
    std::vector<int> place;
    /// Optional, by plan rank: equal numbers mean the same node.
    std::vector<int> node;
    /// Optional, by plan rank: equal numbers mean NICs of one rail, which reach each other by one
    /// switch.
    std::vector<int> rail{};
};

class Planner {
public:
    /// Keeps references: model and layouts must outlive it. Throws ConfigError, naming parameter
    /// and box, where a rollout needs an element that no trainer holds, or dtype or format differ.
    /// Cost: O(distinct shards), independent of the number of ranks up to the rank sets.
    Planner(const ModelSpec& model, const Layout& trainer, const Layout& rollout,
            PlanOptions options = {});
    ~Planner();
    Planner(Planner&&) noexcept;
    Planner& operator=(Planner&&) noexcept;

    [[nodiscard]] Rank trainers() const;
    [[nodiscard]] Rank rollouts() const;
    [[nodiscard]] Rank world_size() const { return trainers() + rollouts(); }

    /// The transfers into one plan rank in plan order (its parameters in layout order). Empty for
    /// trainers.
    [[nodiscard]] std::vector<Transfer> received_by(Rank plan_rank) const;
    /// The transfers out of one plan rank, by destination ascending, in plan order within each.
    [[nodiscard]] std::vector<Transfer> sent_by(Rank plan_rank) const;
    /// Of these the ones into rollout parameters of plan ranks for which wanted(parameter, plan
    /// rank) is true, at the cost of those.
    using Wanted = std::function<bool(layout::ParameterIndex, Rank)>;
    [[nodiscard]] std::vector<Transfer> sent_by(Rank plan_rank, const Wanted& wanted) const;

    /// Sum of the mixes of these transfers.
    [[nodiscard]] std::uint64_t digest(std::span<const Transfer> transfers) const;

    [[nodiscard]] const ModelSpec& model() const;
    [[nodiscard]] const Layout& trainer() const;
    [[nodiscard]] const Layout& rollout() const;

private:
    struct State;
    std::unique_ptr<const State> state_;
};

/// Destinations of source s of S in the order in which it serves D of them (round r: one chunk to
/// each in turn): starts at floor(s*D/S), so that at any time sources spread over destinations.
[[nodiscard]] inline std::uint64_t first_destination(std::uint64_t source, std::uint64_t sources,
                                                     std::uint64_t destinations) {
    return sources == 0 ? 0 : source * destinations / sources;
}

}  // namespace weightlift::plan
