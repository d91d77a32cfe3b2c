#include <algorithm>
#include <optional>

#include "weightlift/plan/copy.hpp"

#include "strategy_flows.hpp"

namespace weightlift::sim {

namespace {

/// Ranks that hold equal copies, by NVLink domain.
class Copies {
public:
    Copies(const plan::Planner& planner, const Fabric& fabric) {
        const layout::Layout& rollout = planner.rollout();
        for (layout::RankSetId id = 0; id < rollout.rank_set_count(); ++id) {
            std::vector<Rank> ranks;
            for (const Rank r : rollout.rank_set(id)) ranks.push_back(planner.trainers() + r);
            groups_.push_back(by_domain(ranks, fabric));
        }
    }
    struct Seat {
        std::size_t group = 0, member = 0;
    };
    [[nodiscard]] const std::vector<std::vector<Rank>>& groups(layout::RankSetId id) const {
        return groups_[id];
    }
    [[nodiscard]] Seat seat(layout::RankSetId id, Rank rank) const {
        const auto& groups = groups_[id];
        const auto after = std::upper_bound(
            groups.begin(), groups.end(), rank,
            [](Rank r, const std::vector<Rank>& group) { return r < group.front(); });
        const auto& group = *(after - 1);
        return {static_cast<std::size_t>(after - 1 - groups.begin()),
                static_cast<std::size_t>(std::lower_bound(group.begin(), group.end(), rank) -
                                         group.begin())};
    }

private:
    std::vector<std::vector<std::vector<Rank>>> groups_;  ///< by rank set
};

double payload(const layout::Parameter& parameter) {
    std::uint64_t elements = 0;
    for (const layout::Piece& piece : parameter.pieces) elements += piece.box.elements();
    return static_cast<double>(elements * element_bytes(parameter.dtype));
}

double chunks(double bytes) { return bytes / static_cast<double>(plan::kRotationChunk) + 1; }

}  // namespace

StrategyFlows relay_flows(const plan::Planner& planner, const Fabric& fabric, Rows rows) {
    const layout::Layout& rollout = planner.rollout();
    const Copies copies(planner, fabric);
    Step enter{"enter", {}}, relay{"relay", {}}, fan_out{"fan out", {}};
    FlowSums entering(planner.world_size()), relayed(planner.world_size()),
        fanned(planner.world_size());
    for (Rank r = 0; r < planner.rollouts(); ++r) {
        const Rank rank = planner.trainers() + r;
        for (const layout::ParameterIndex p : rollout.parameters_of(r)) {
            const layout::Parameter& parameter = rollout.parameter(p);
            const auto& groups = copies.groups(parameter.ranks);
            const auto [g, member] = copies.seat(parameter.ranks, rank);
            const auto domains = static_cast<double>(groups.size());
            const auto members = static_cast<double>(groups[g].size());
            const double bytes = payload(parameter);
            if (groups.size() > 1) {
                const auto& before = groups[(g + groups.size() - 1) % groups.size()];
                const double part = bytes * (domains - 1) / (domains * members);
                relayed.add(before[member * before.size() / groups[g].size()], part, chunks(part));
            }
            if (groups[g].size() > 1) {
                const double part = bytes * (members - 1) / members;
                fanned.add(groups[g][(member + groups[g].size() - 1) % groups[g].size()], part,
                           chunks(part));
            }
        }
        for (const plan::Transfer& t : planner.received_by(rank)) {
            const layout::RankSetId id = rollout.parameter(t.dst.parameter).ranks;
            const auto& groups = copies.groups(id);
            const auto share =
                1 / static_cast<double>(groups.size() * groups[copies.seat(id, rank).group].size());
            entering.add(t.src.rank, share * static_cast<double>(t.bytes()),
                         share * messages_of(t, rows));
        }
        entering.move_to(rank, enter.flows);
        relayed.move_to(rank, relay.flows);
        fanned.move_to(rank, fan_out.flows);
    }
    return {"relay", {std::move(enter), std::move(relay), std::move(fan_out)}, true};
}

}  // namespace weightlift::sim
