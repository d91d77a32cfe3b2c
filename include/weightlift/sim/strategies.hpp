// What each strategy moves between whom, worked out from the layouts: sums of what the plans of
// planner.hpp and steps.hpp execute, without making each rank's part. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weightlift/plan/planner.hpp"
#include "weightlift/sim/simulate.hpp"

namespace weightlift::sim {

struct Step {
    std::string name;
    std::vector<Flow> flows;
};

struct StrategyFlows {
    std::string name;
    std::vector<Step> steps;
    /// Steps run at once, chunk by chunk, instead of one after the other.
    bool is_pipelined = false;
};

/// push: trainer shard to rollout shard, only the intersection.
[[nodiscard]] StrategyFlows direct_flows(const plan::PlanStatistics& statistics, Rows rows);

/// gather: each assigned source collects, within its pipeline stage, the target shards that it does
/// not hold; write: it writes them to the targets. One after the other.
/// `stages`: pipeline stages of the trainer, equal blocks of ranks; 1 where unknown.
[[nodiscard]] StrategyFlows replica_flows(const plan::Planner& planner, int stages, Rows rows);

/// gather: the first rank of each stage collects the stage's full tensors; broadcast: to every
/// rollout rank, in a chain over NVLink domains (single ranks where there are none): a domain takes
/// everything in once, over all its ports, and passes it round inside. One after the other.
[[nodiscard]] StrategyFlows broadcast_flows(const plan::Planner& planner, const Fabric& fabric,
                                            int stages);

/// Of each rollout parameter's copies those in one NVLink domain take it in once and fan it out; it
/// leaves the trainers once in all, in chunks that enter the domains and their ranks in turn and go
/// on from domain to domain in a ring. Pipelined.
[[nodiscard]] StrategyFlows relay_flows(const plan::Planner& planner, const Fabric& fabric,
                                        Rows rows);

struct StrategyPrediction {
    std::string name;
    Bytes bytes = 0;   ///< moved between ranks, in all steps
    Prediction bound;  ///< of all steps together
    struct StepTime {
        std::string name;
        double seconds = 0;
    };
    std::vector<StepTime> steps;  ///< one, of all names, where pipelined
    double seconds = 0;
    double most_writers = 0;
};

/// A lower bound for all steps together, without simulating any.
[[nodiscard]] Prediction bound_of(const StrategyFlows& strategy, const Fabric& fabric);
[[nodiscard]] StrategyPrediction predict_strategy(const StrategyFlows& strategy,
                                                  const Fabric& fabric, Order order);

}  // namespace weightlift::sim
