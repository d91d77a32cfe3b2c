#include <algorithm>
#include <numeric>

#include "weightlift/plan/copy.hpp"
#include "weightlift/plan/groups.hpp"

#include "strategy_flows.hpp"

namespace weightlift::sim {

namespace {

double chunks(double bytes) { return bytes / static_cast<double>(plan::kRotationChunk) + 1; }

/// Full tensors of each stage, and what its first rank takes from the others.
struct Gathered {
    std::vector<double> stage_bytes;
    Step step{"gather", {}};
};

Gathered gather_stages(const plan::Planner& planner, int stages) {
    const layout::Layout& trainer = planner.trainer();
    const Rank sources = planner.trainers() / static_cast<Rank>(stages);
    Gathered out;
    out.stage_bytes.resize(static_cast<std::size_t>(stages));
    std::vector<FlowSums> into(static_cast<std::size_t>(stages), FlowSums(planner.world_size()));
    for (layout::TensorId id = 0; id < planner.model().tensors().size(); ++id) {
        const auto refs = trainer.pieces_of(id);
        if (refs.empty() || planner.rollout().pieces_of(id).empty()) continue;
        // A tensor on several stages (tied embeddings) is sent by the first of them.
        Rank first = planner.trainers();
        for (const layout::PieceRef& ref : refs)
            first = std::min(first, trainer.rank_set(trainer.parameter(ref.parameter).ranks)[0]);
        const Rank stage = first / sources, root = stage * sources;
        out.stage_bytes[static_cast<std::size_t>(stage)] +=
            static_cast<double>(planner.model().tensor(id).bytes());
        std::vector<Box> taken;
        for (const layout::PieceRef& ref : refs) {
            const layout::Parameter& parameter = trainer.parameter(ref.parameter);
            const Box& box = parameter.pieces[ref.piece].box;
            const Rank holder = trainer.rank_set(parameter.ranks)[0];
            if (holder / sources != stage || trainer.holds(parameter.ranks, root)) continue;
            if (std::find(taken.begin(), taken.end(), box) != taken.end()) continue;
            taken.push_back(box);
            const auto bytes = static_cast<double>(box.elements() * element_bytes(parameter.dtype));
            into[static_cast<std::size_t>(stage)].add(holder, bytes, chunks(bytes));
        }
    }
    for (std::size_t stage = 0; stage < into.size(); ++stage)
        into[stage].move_to(static_cast<Rank>(stage) * sources, out.step.flows);
    return out;
}

}  // namespace

StrategyFlows broadcast_flows(const plan::Planner& planner, const Fabric& fabric, int stages) {
    Gathered gathered = gather_stages(planner, stages);
    std::vector<Rank> rollouts(static_cast<std::size_t>(planner.rollouts()));
    std::iota(rollouts.begin(), rollouts.end(), planner.trainers());
    const plan::Groups groups(rollouts, nodes_of(fabric));
    const auto lanes = static_cast<double>(groups.lanes());
    const double all =
        std::accumulate(gathered.stage_bytes.begin(), gathered.stage_bytes.end(), 0.0);

    Step broadcast{"broadcast", {}};
    FlowSums into(planner.world_size());
    for (const Rank rank : rollouts) {
        const auto [g, member] = groups.seat_of(rank);
        const auto& members = groups.members(g);
        double entering = 0;
        for (std::size_t lane = 0; lane < groups.lanes(); ++lane) {
            if (groups.of_lane(g, lane) != rank) continue;
            entering += all / lanes;
            if (g > 0) {
                into.add(groups.of_lane(g - 1, lane), all / lanes, chunks(all / lanes));
                continue;
            }
            for (std::size_t stage = 0; stage < gathered.stage_bytes.size(); ++stage) {
                const double part = gathered.stage_bytes[stage] / lanes;
                into.add(static_cast<Rank>(stage) * (planner.trainers() / stages), part,
                         chunks(part));
            }
        }
        if (members.size() > 1)
            into.add(members[(member + members.size() - 1) % members.size()], all - entering,
                     chunks(all - entering));
        into.move_to(rank, broadcast.flows);
    }
    return {"broadcast", {std::move(gathered.step), std::move(broadcast)}, false};
}

}  // namespace weightlift::sim
