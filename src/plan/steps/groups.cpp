#include "weightlift/plan/groups.hpp"

#include <algorithm>
#include <map>

namespace weightlift::plan {

Groups::Groups(std::span<const Rank> ranks, const std::vector<int>& node) {
    std::map<int, std::size_t> group_of_node;
    for (const Rank rank : ranks) {
        const auto next = groups_.size();
        const auto group =
            node.empty() ? next
                         : group_of_node.try_emplace(node[static_cast<std::size_t>(rank)], next)
                               .first->second;
        if (group == next) groups_.emplace_back();
        seats_.push_back({rank, {group, groups_[group].size()}});
        groups_[group].push_back(rank);
        lanes_ = std::max(lanes_, groups_[group].size());
    }
}

Groups::Seat Groups::seat_of(Rank rank) const {
    const auto at = std::lower_bound(seats_.begin(), seats_.end(), rank,
                                     [](const auto& seat, Rank r) { return seat.first < r; });
    WEIGHTLIFT_ENSURES(at != seats_.end() && at->first == rank);
    return at->second;
}

}  // namespace weightlift::plan
