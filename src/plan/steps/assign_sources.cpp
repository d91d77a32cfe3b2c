#include "weightlift/plan/assign_sources.hpp"

#include <algorithm>
#include <map>

namespace weightlift::plan {

std::vector<std::uint32_t> assign_sources(std::uint32_t sources,
                                          std::span<const Rank> engine_ranks) {
    std::vector<std::uint32_t> assigned;
    // By engine rank: engines served by each source that serves any.
    std::map<Rank, std::map<std::uint32_t, std::uint32_t>> served;
    std::uint32_t turn = 0;
    for (const Rank rank : engine_ranks) {
        auto& engines = served[rank];
        std::uint32_t source = 0;
        if (assigned.size() < sources) {
            source = static_cast<std::uint32_t>(assigned.size());
        } else if (!engines.empty()) {
            source =
                std::min_element(engines.begin(), engines.end(), [](const auto& a, const auto& b) {
                    return a.second < b.second;
                })->first;
        } else {
            source = turn++ % sources;
        }
        ++engines[source];
        assigned.push_back(source);
    }
    return assigned;
}

}  // namespace weightlift::plan
