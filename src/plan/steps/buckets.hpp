// What broadcast stages at a time: full logical tensors, or parts of large ones, in buckets that
// fit a slot of staging; and when each bucket travels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/plan/planner.hpp"
#include "weightlift/plan/steps.hpp"

#include "lanes.hpp"
#include "slots.hpp"

namespace weightlift::plan::steps {

/// A box of a tensor in a bucket, without gaps between its rows.
struct Unit {
    layout::TensorId tensor = 0;
    Box box;
    std::uint32_t bucket = 0;
    Bytes offset = 0;  ///< in the bucket
};

struct Bucket {
    Rank stage = 0;
    std::uint32_t index_in_stage = 0;
    std::uint32_t units_begin = 0, units_end = 0;
    Bytes bytes = 0;
    Chunks chunks;
    /// First round of the broadcast, and its rounds at one rank's link.
    std::uint32_t round = 0, rounds = 0;
    std::uint32_t gather_round = 0;
};

class Buckets {
public:
    /// Of tensors that rollouts hold, each sent by the first stage that holds any of it.
    /// ConfigError where a row does not fit a slot. `lanes`: of the groups of rollout ranks.
    Buckets(const Planner& planner, const StepOptions& options, std::size_t lanes);

    /// From slot to slot: the largest bucket.
    [[nodiscard]] Bytes slot_bytes() const { return slot_bytes_; }
    /// In the order in which they are broadcast: stages in turn.
    [[nodiscard]] const std::vector<Bucket>& all() const { return buckets_; }
    [[nodiscard]] std::span<const Unit> units_in(const Bucket& bucket) const {
        return std::span(units_).subspan(bucket.units_begin, bucket.units_end - bucket.units_begin);
    }
    [[nodiscard]] std::span<const Unit> units_of(layout::TensorId tensor) const {
        const auto [begin, end] = of_tensor_[tensor];
        return std::span(units_).subspan(begin, end - begin);
    }
    /// The buckets of one stage, in order.
    [[nodiscard]] const std::vector<std::uint32_t>& of_stage(Rank stage) const {
        return of_stage_[static_cast<std::size_t>(stage)];
    }

private:
    void fill(const Planner& planner, const StepOptions& options, std::size_t lanes);
    void schedule(std::size_t lanes);

    std::vector<Unit> units_;  ///< by stage, tensor
    std::vector<std::pair<std::uint32_t, std::uint32_t>> of_tensor_;
    std::vector<Bucket> buckets_;
    Bytes slot_bytes_ = 0;
    std::vector<std::vector<std::uint32_t>> of_stage_;
};

}  // namespace weightlift::plan::steps
