// What a cluster makes of a plan, for machines: schema weightlift-prediction/1 (README,
// "Prediction").
#pragma once

#include <string>
#include <vector>

#include "inputs.hpp"
#include "prediction_text.hpp"

namespace weightlift::app {

/// The strategies in ascending order of their simulated times.
[[nodiscard]] std::string prediction_json(const Scene& scene,
                                          const plan::PlanStatistics& statistics,
                                          const sim::Fabric& fabric,
                                          const SimulationOptions& options,
                                          std::vector<sim::StrategyPrediction> strategies);

}  // namespace weightlift::app
