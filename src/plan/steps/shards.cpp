#include "shards.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "weightlift/plan/assign_sources.hpp"

#include "slots.hpp"

namespace weightlift::plan::steps {

using layout::ParameterIndex;
using layout::RankSetId;

const Shelf::Place& Shelf::of(ParameterIndex parameter) const {
    const auto at =
        std::lower_bound(places.begin(), places.end(), parameter,
                         [](const Place& place, ParameterIndex p) { return place.parameter < p; });
    WEIGHTLIFT_ENSURES(at != places.end() && at->parameter == parameter);
    return *at;
}

Shards::Shards(const Planner& planner, const StepOptions& options, const RankKinds& rollouts)
    : trainers_(planner.trainers()) {
    const auto sources = static_cast<std::uint32_t>(planner.trainers() / options.stages);
    assign(planner, sources, rollouts);
    fill_shelves(planner, options, rollouts);
    for (std::size_t stage = 0; stage < shelves_.size(); ++stage) {
        std::vector<std::uint32_t> turns(sources);
        auto& first = first_turns_.emplace_back();
        for (const Shard& shard : shards_) {
            first.push_back(turns[shard.source]);
            turns[shard.source] +=
                static_cast<std::uint32_t>(shelves_[stage][shard.kind].bucket_bytes.size());
        }
    }
}

Bytes Shards::slot_begin(Rank stage, std::uint32_t turn) const {
    return turn % kSlots * slot_bytes_[static_cast<std::size_t>(stage)];
}

void Shards::assign(const Planner& planner, std::uint32_t sources, const RankKinds& rollouts) {
    std::vector<Rank> engine_ranks;
    for (Rank r = 0; r < planner.rollouts(); ++r)
        engine_ranks.push_back(planner.rollout().engine_rank_of(r));
    const auto assigned = assign_sources(sources, engine_ranks);
    std::map<std::tuple<std::uint32_t, Rank, std::uint32_t>, std::uint32_t> known;
    of_source_.resize(sources);
    for (Rank r = 0; r < planner.rollouts(); ++r) {
        const auto i = static_cast<std::size_t>(r);
        const auto [at, is_new] =
            known.try_emplace({assigned[i], engine_ranks[i], rollouts.kind_of(r)},
                              static_cast<std::uint32_t>(shards_.size()));
        if (is_new) {
            of_source_[assigned[i]].push_back(at->second);
            shards_.push_back({assigned[i], rollouts.kind_of(r), {}});
        }
        shards_[at->second].targets.push_back(planner.trainers() + r);
        of_target_.push_back(at->second);
    }
}

void Shards::fill_shelves(const Planner& planner, const StepOptions& options,
                          const RankKinds& rollouts) {
    const layout::Layout &trainer = planner.trainer(), &rollout = planner.rollout();
    const auto stages = static_cast<std::size_t>(options.stages);
    const Rank in_stage = planner.trainers() / options.stages;
    std::vector<std::vector<bool>> of_set;
    for (RankSetId id = 0; id < trainer.rank_set_count(); ++id) {
        auto& in = of_set.emplace_back(stages);
        for (const Rank rank : trainer.rank_set(id))
            in[static_cast<std::size_t>(rank / in_stage)] = true;
    }
    // By stage: whether it holds any of a rollout parameter's tensors.
    std::vector<std::vector<bool>> has(stages, std::vector<bool>(rollout.parameters().size()));
    for (ParameterIndex p = 0; p < rollout.parameters().size(); ++p)
        for (const layout::Piece& piece : rollout.parameter(p).pieces)
            for (const layout::PieceRef ref : trainer.pieces_of(piece.tensor))
                for (std::size_t stage = 0; stage < stages; ++stage)
                    if (of_set[trainer.parameter(ref.parameter).ranks][stage]) has[stage][p] = true;

    const Bytes slot = most_slot_bytes(options);
    shelves_.assign(stages, std::vector<Shelf>(rollouts.kinds()));
    slot_bytes_.assign(stages, 0);
    std::vector<Rank> example(rollouts.kinds(), -1);
    for (Rank r = 0; r < planner.rollouts(); ++r) example[rollouts.kind_of(r)] = r;
    for (std::uint32_t kind = 0; kind < rollouts.kinds(); ++kind)
        for (const ParameterIndex p : rollout.parameters_of(example[kind]))
            for (std::size_t stage = 0; stage < stages; ++stage) {
                if (!has[stage][p]) continue;
                const Bytes bytes = rollout.parameter(p).bytes();
                if (bytes > slot)
                    throw ConfigError(fmt::format(
                        "staging limit: rollout parameter {} has {} bytes, but half of the limit "
                        "is {}; it must fit",
                        rollout.parameter(p).name, bytes, slot));
                Shelf& shelf = shelves_[stage][kind];
                auto& buckets = shelf.bucket_bytes;
                if (buckets.empty() || round_up(buckets.back(), kArenaAlignment) + bytes > slot)
                    buckets.push_back(0);
                const Bytes offset = round_up(buckets.back(), kArenaAlignment);
                shelf.places.push_back({p, static_cast<std::uint32_t>(buckets.size()) - 1, offset});
                buckets.back() = offset + bytes;
                slot_bytes_[stage] =
                    std::max(slot_bytes_[stage], round_up(buckets.back(), kArenaAlignment));
            }
}

}  // namespace weightlift::plan::steps
