#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "weightlift/plan/assign_sources.hpp"

#include "strategy_flows.hpp"

namespace weightlift::sim {

namespace {

bool holds(const layout::Layout& trainer, layout::TensorId tensor, const Box& box, Rank rank) {
    const auto refs = trainer.pieces_of(tensor);
    return std::any_of(refs.begin(), refs.end(), [&](const layout::PieceRef& ref) {
        const layout::Parameter& parameter = trainer.parameter(ref.parameter);
        return parameter.pieces[ref.piece].box.contains(box) &&
               trainer.holds(parameter.ranks, rank);
    });
}

}  // namespace

StrategyFlows replica_flows(const plan::Planner& planner, int stages, Rows rows) {
    const layout::Layout& rollout = planner.rollout();
    const Rank sources = planner.trainers() / static_cast<Rank>(stages);
    std::vector<Rank> engine_ranks;
    for (Rank r = 0; r < planner.rollouts(); ++r) engine_ranks.push_back(rollout.engine_rank_of(r));
    const auto assigned = plan::assign_sources(static_cast<std::uint32_t>(sources), engine_ranks);

    // A source gathers a shard once for all targets that hold equal ones.
    std::map<std::vector<layout::ParameterIndex>, std::uint32_t> shards;
    std::set<std::tuple<Rank, Rank, std::uint32_t>> gathered;
    std::map<Rank, FlowSums> into_source;
    Step gather{"gather", {}}, write{"write", {}};
    FlowSums written(planner.world_size());
    for (Rank r = 0; r < planner.rollouts(); ++r) {
        const auto shard =
            shards.try_emplace(rollout.parameters_of(r), static_cast<std::uint32_t>(shards.size()))
                .first->second;
        const auto transfers = planner.received_by(planner.trainers() + r);
        const auto source_in = [&](Rank stage) {
            return stage * sources + static_cast<Rank>(assigned[static_cast<std::size_t>(r)]);
        };
        std::vector<bool> is_new(static_cast<std::size_t>(stages));
        for (Rank stage = 0; stage < static_cast<Rank>(stages); ++stage) {
            const auto key =
                std::tuple{source_in(stage), engine_ranks[static_cast<std::size_t>(r)], shard};
            is_new[static_cast<std::size_t>(stage)] = gathered.insert(key).second;
        }
        // Of a parameter that lies in one piece in the staging copy, one message.
        std::vector<layout::ParameterIndex> last(static_cast<std::size_t>(stages), ~0U);
        for (const plan::Transfer& t : transfers) {
            const Rank stage = t.src.rank / sources;
            const Rank source = source_in(stage);
            auto& previous = last[static_cast<std::size_t>(stage)];
            written.add(source, static_cast<double>(t.bytes()),
                        std::exchange(previous, t.dst.parameter) == t.dst.parameter ? 0 : 1);
            if (is_new[static_cast<std::size_t>(stage)] &&
                !holds(planner.trainer(), t.tensor, t.box, source))
                into_source.try_emplace(source, FlowSums(planner.world_size()))
                    .first->second.add(t.src.rank, static_cast<double>(t.bytes()),
                                       messages_of(t, rows));
        }
        written.move_to(planner.trainers() + r, write.flows);
    }
    for (auto& [source, sums] : into_source) sums.move_to(source, gather.flows);
    return {"replica", {std::move(gather), std::move(write)}, false};
}

}  // namespace weightlift::sim
