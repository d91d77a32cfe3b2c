#include <algorithm>

#include "weightlift/plan/relay_traffic.hpp"

#include "strategy_flows.hpp"

namespace weightlift::sim {

StrategyFlows relay_flows(const plan::Planner& planner, const Fabric& fabric, Rows rows) {
    plan::StepOptions options;
    options.node = nodes_of(fabric);
    const plan::StepPlanner steps(planner, plan::Strategy::Relay, options);
    StrategyFlows relay{"relay", {}, true};
    for (const std::string_view name : steps.steps())
        relay.steps.push_back({std::string(name), {}});
    for (const plan::StepTraffic& t : plan::relay_traffic(planner, options))
        relay.steps[t.step].flows.push_back(
            {t.src, t.dst, t.bytes, rows == Rows::Direct ? t.runs : t.copies});
    for (Step& step : relay.steps)
        std::stable_sort(step.flows.begin(), step.flows.end(),
                         [](const Flow& a, const Flow& b) { return a.dst < b.dst; });
    return relay;
}

}  // namespace weightlift::sim
