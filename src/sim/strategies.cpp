#include "weightlift/sim/strategies.hpp"

#include <algorithm>
#include <cmath>

#include "strategy_flows.hpp"

namespace weightlift::sim {

StrategyFlows direct_flows(const plan::PlanStatistics& statistics, Rows rows) {
    return {"direct", {{"push", flows_of(statistics, rows)}}, false};
}

namespace {

std::vector<Flow> all_flows(const StrategyFlows& strategy) {
    std::vector<Flow> all;
    for (const Step& step : strategy.steps)
        all.insert(all.end(), step.flows.begin(), step.flows.end());
    return all;
}

}  // namespace

Prediction bound_of(const StrategyFlows& strategy, const Fabric& fabric) {
    return predict(all_flows(strategy), fabric);
}

StrategyPrediction predict_strategy(const StrategyFlows& strategy, const Fabric& fabric,
                                    Order order) {
    StrategyPrediction out;
    out.name = strategy.name;
    const std::vector<Flow> all = all_flows(strategy);
    std::string names;
    for (const Step& step : strategy.steps) names += (names.empty() ? "" : " + ") + step.name;
    for (const Flow& flow : all)
        if (flow.src != flow.dst) out.bytes += flow.bytes;
    out.bound = predict(all, fabric);
    const auto add = [&](const std::string& name, std::span<const Flow> flows) {
        const Simulation simulation = simulate(flows, fabric, order);
        out.steps.push_back({name, simulation.seconds});
        out.seconds += simulation.seconds;
        out.most_writers = std::max(out.most_writers, simulation.most_writers);
    };
    if (strategy.is_pipelined)
        add(names, all);
    else
        for (const Step& step : strategy.steps) add(step.name, step.flows);
    return out;
}

void FlowSums::add(Rank src, double bytes, double messages) {
    auto& sum = sums_[static_cast<std::size_t>(src)];
    if (sum.bytes == 0 && bytes > 0) touched_.push_back(src);
    sum.bytes += bytes;
    sum.messages += messages;
}

void FlowSums::move_to(Rank dst, std::vector<Flow>& flows) {
    std::sort(touched_.begin(), touched_.end());
    for (const Rank src : touched_) {
        auto& sum = sums_[static_cast<std::size_t>(src)];
        if (src != dst)
            flows.push_back({src, dst, static_cast<Bytes>(std::llround(sum.bytes)),
                             std::max<std::uint64_t>(
                                 1, static_cast<std::uint64_t>(std::llround(sum.messages)))});
        sum = {};
    }
    touched_.clear();
}

std::vector<int> nodes_of(const Fabric& fabric) {
    std::vector<int> nodes;
    for (Rank rank = 0; rank < fabric.ranks(); ++rank) {
        const int domain = fabric.place(rank).domain;
        nodes.push_back(domain >= 0 ? domain : -1 - static_cast<int>(rank));
    }
    return nodes;
}

}  // namespace weightlift::sim
