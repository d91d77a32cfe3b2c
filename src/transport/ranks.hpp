// The ranks of a list of links, or of destinations.
#pragma once

#include <vector>

namespace weightlift::transport {

/// In the list's order.
template <class List>
[[nodiscard]] std::vector<int> ranks_of(const List& list) {
    std::vector<int> ranks;
    ranks.reserve(list.size());
    for (const auto& one : list) ranks.push_back(one.rank);
    return ranks;
}

}  // namespace weightlift::transport
