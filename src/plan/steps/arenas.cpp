#include "arenas.hpp"

namespace weightlift::plan::steps {

RankKinds::RankKinds(const Layout& layout) {
    std::vector<bool> is_used(layout.rank_set_count());
    for (const layout::Parameter& parameter : layout.parameters()) is_used[parameter.ranks] = true;
    std::vector<std::vector<layout::RankSetId>> sets(static_cast<std::size_t>(layout.world_size()));
    for (layout::RankSetId id = 0; id < is_used.size(); ++id)
        if (is_used[id])
            for (const Rank rank : layout.rank_set(id))
                sets[static_cast<std::size_t>(rank)].push_back(id);
    std::map<std::vector<layout::RankSetId>, std::uint32_t> ids;
    for (auto& of : sets) {
        const auto [at, is_new] =
            ids.try_emplace(std::move(of), static_cast<std::uint32_t>(sets_.size()));
        if (is_new) sets_.push_back(at->first);
        kinds_.push_back(at->second);
    }
}

}  // namespace weightlift::plan::steps
