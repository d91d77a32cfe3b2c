// Arena maps by plan rank. Ranks that hold the same parameters share one.
#pragma once

#include <map>
#include <vector>

#include "weightlift/plan/copy.hpp"
#include "weightlift/plan/planner.hpp"

namespace weightlift::plan::steps {

/// Which ranks of a layout hold the same parameters.
class RankKinds {
public:
    explicit RankKinds(const Layout& layout);
    [[nodiscard]] std::uint32_t kind_of(Rank rank) const {
        return kinds_[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] std::uint32_t kinds() const { return static_cast<std::uint32_t>(sets_.size()); }
    /// The rank sets that a kind of rank is in, ascending.
    [[nodiscard]] const std::vector<layout::RankSetId>& sets_of(std::uint32_t kind) const {
        return sets_[kind];
    }

private:
    std::vector<std::uint32_t> kinds_;
    std::vector<std::vector<layout::RankSetId>> sets_;
};

/// Made as they are asked for; references stay valid.
class Arenas {
public:
    Arenas(const Planner& planner, const RankKinds& trainers, const RankKinds& rollouts)
        : planner_(planner), trainers_(trainers), rollouts_(rollouts) {}
    const ArenaMap& operator[](Rank plan_rank) {
        const bool is_trainer = plan_rank < planner_.trainers();
        const Rank rank = is_trainer ? plan_rank : plan_rank - planner_.trainers();
        const auto kind = (is_trainer ? trainers_ : rollouts_).kind_of(rank);
        return maps_
            .try_emplace({is_trainer, kind}, is_trainer ? planner_.trainer() : planner_.rollout(),
                         rank)
            .first->second;
    }

private:
    const Planner& planner_;
    const RankKinds &trainers_, &rollouts_;
    std::map<std::pair<bool, std::uint32_t>, ArenaMap> maps_;
};

}  // namespace weightlift::plan::steps
