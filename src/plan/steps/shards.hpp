// Whom the sources of replica serve, and in which buckets of whole parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "weightlift/plan/planner.hpp"
#include "weightlift/plan/steps.hpp"

#include "arenas.hpp"

namespace weightlift::plan::steps {

/// Targets that one source serves with the same bytes.
struct Shard {
    std::uint32_t source = 0;   ///< among the ranks of a stage, the same in each
    std::uint32_t kind = 0;     ///< of rollout rank
    std::vector<Rank> targets;  ///< plan ranks, ascending; the first stands for all
};

/// The parameters of a kind of rollout rank of which a pipeline stage may hold a part.
struct Shelf {
    struct Place {
        layout::ParameterIndex parameter = 0;
        std::uint32_t bucket = 0;
        Bytes offset = 0;  ///< in the bucket
    };
    std::vector<Place> places;  ///< by parameter
    std::vector<Bytes> bucket_bytes;

    [[nodiscard]] const Place& of(layout::ParameterIndex parameter) const;
};

class Shards {
public:
    /// ConfigError where a parameter does not fit half of the staging limit.
    Shards(const Planner& planner, const StepOptions& options, const RankKinds& rollouts);

    [[nodiscard]] const std::vector<Shard>& all() const { return shards_; }
    /// Indices of a source's shards, in its order.
    [[nodiscard]] const std::vector<std::uint32_t>& of_source(std::uint32_t source) const {
        return of_source_[source];
    }
    /// Of a rollout's plan rank.
    [[nodiscard]] std::uint32_t of_target(Rank plan_rank) const {
        return of_target_[static_cast<std::size_t>(plan_rank - trainers_)];
    }
    [[nodiscard]] const Shelf& shelf(Rank stage, std::uint32_t shard) const {
        return shelves_[static_cast<std::size_t>(stage)][shards_[shard].kind];
    }
    /// How many buckets the source has filled in this stage before the shard's first.
    [[nodiscard]] std::uint32_t first_turn(Rank stage, std::uint32_t shard) const {
        return first_turns_[static_cast<std::size_t>(stage)][shard];
    }
    /// Where a source's slot begins in its staging.
    [[nodiscard]] Bytes slot_begin(Rank stage, std::uint32_t turn) const;

private:
    void assign(const Planner& planner, std::uint32_t sources, const RankKinds& rollouts);
    void fill_shelves(const Planner& planner, const StepOptions& options,
                      const RankKinds& rollouts);

    Rank trainers_ = 0;
    std::vector<Shard> shards_;
    std::vector<std::vector<std::uint32_t>> of_source_;
    std::vector<std::uint32_t> of_target_;
    std::vector<std::vector<Shelf>> shelves_;              ///< by stage, kind
    std::vector<std::vector<std::uint32_t>> first_turns_;  ///< by stage, shard
    std::vector<Bytes> slot_bytes_;                        ///< by stage: the largest bucket
};

}  // namespace weightlift::plan::steps
