// Ranks by node, and the lanes by which bytes run from node to node.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "weightlift/base/bytes.hpp"

namespace weightlift::plan {

/// Ranks by node, in the order of their first ranks. The largest group has a lane for each member;
/// in a smaller one a member serves several.
class Groups {
public:
    struct Seat {
        std::size_t group = 0, member = 0;
    };

    /// `node`: as in StepOptions, by these ranks.
    Groups(std::span<const Rank> ranks, const std::vector<int>& node);

    [[nodiscard]] std::size_t size() const { return groups_.size(); }
    [[nodiscard]] std::size_t lanes() const { return lanes_; }
    [[nodiscard]] const std::vector<Rank>& members(std::size_t group) const {
        return groups_[group];
    }
    [[nodiscard]] std::size_t member_of_lane(std::size_t group, std::size_t lane) const {
        return lane * groups_[group].size() / lanes_;
    }
    [[nodiscard]] Rank of_lane(std::size_t group, std::size_t lane) const {
        return groups_[group][member_of_lane(group, lane)];
    }
    /// Of a rank in these groups; anything else is our bug.
    [[nodiscard]] Seat seat_of(Rank rank) const;

private:
    std::vector<std::vector<Rank>> groups_;
    std::vector<std::pair<Rank, Seat>> seats_;  ///< ascending
    std::size_t lanes_ = 0;
};

}  // namespace weightlift::plan
