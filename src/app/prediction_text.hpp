// What a cluster makes of a plan, as people read it: ports, bounds, simulated times.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "weightlift/plan/steps.hpp"
#include "weightlift/sim/strategies.hpp"

#include "options.hpp"

namespace weightlift::app {

/// Adds --order and --rows.
struct SimulationOptions {
    sim::Order order = sim::Order::Rotated;
    sim::Rows rows = sim::Rows::Packed;
};
void add_simulation_options(CLI::App& app, SimulationOptions& options);

/// "753.8 ms".
[[nodiscard]] std::string milliseconds(double seconds);
/// A port with the ranks behind it: "NIC 0 of node 2 (rank 16), send".
[[nodiscard]] std::string name_of(const sim::PortId& port, const sim::Fabric& fabric);

/// Which nodes the trainers and each engine stand on.
[[nodiscard]] std::string placement_text(const layout::Layout& rollout, const sim::Fabric& fabric);
/// The busiest ports and the lower bound, a line each.
[[nodiscard]] std::string prediction_text(const sim::Prediction& prediction,
                                          const sim::Fabric& fabric, Bytes bytes);
inline constexpr std::array kStrategies{plan::Strategy::Direct, plan::Strategy::Replica,
                                        plan::Strategy::Broadcast, plan::Strategy::Relay};
/// A strategy's name; ConfigError naming --strategy and its values for another.
[[nodiscard]] plan::Strategy parse_strategy(const std::string& name);
[[nodiscard]] sim::StrategyFlows flows_by(plan::Strategy strategy, const plan::Planner& planner,
                                          const plan::PlanStatistics& statistics,
                                          const sim::Fabric& fabric, int stages, sim::Rows rows);
/// Of all strategies, `direct` (which `statistics` is of) first.
[[nodiscard]] std::vector<sim::StrategyPrediction> predict_strategies(
    const plan::Planner& planner, const plan::PlanStatistics& statistics, const sim::Fabric& fabric,
    int stages, const SimulationOptions& options);
/// Pipeline stages of the trainer as far as its layout's text says; else 1.
[[nodiscard]] int trainer_stages(const SceneOptions& options);

/// Which is the best of at least one, the fastest first, and by how much.
[[nodiscard]] std::string choice_text(std::span<const sim::StrategyPrediction> sorted);
/// A row a strategy, the fastest first, with what bounds each, and what `auto` would choose.
[[nodiscard]] std::string ranking_text(std::vector<sim::StrategyPrediction> strategies,
                                       const sim::Fabric& fabric);

}  // namespace weightlift::app
