#include <algorithm>

#include "weightlift/base/error.hpp"
#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {

std::vector<std::size_t> deal_nics(std::span<const Candidate> candidates, int local_rank,
                                   int local_size) {
    WEIGHTLIFT_ENSURES(local_rank >= 0 && local_rank < local_size);
    if (candidates.empty()) return {};
    const int nearest =
        std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
            return a.distance < b.distance;
        })->distance;
    std::vector<std::size_t> near;
    for (std::size_t i = 0; i < candidates.size(); ++i)
        if (candidates[i].distance == nearest) near.push_back(i);

    const auto rank = static_cast<std::size_t>(local_rank);
    const auto size = static_cast<std::size_t>(local_size);
    if (near.size() < size) return {near[rank % near.size()]};
    const auto first = near.begin() + static_cast<std::ptrdiff_t>(rank * near.size() / size);
    const auto last = near.begin() + static_cast<std::ptrdiff_t>((rank + 1) * near.size() / size);
    return {first, last};
}

}  // namespace weightlift::transport
