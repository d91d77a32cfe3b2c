// What stands behind a StepPlanner: one strategy's plan.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "weightlift/plan/steps.hpp"

namespace weightlift::plan::steps {

class StrategyPlan {
public:
    virtual ~StrategyPlan() = default;
    StrategyPlan(const StrategyPlan&) = delete;
    StrategyPlan& operator=(const StrategyPlan&) = delete;

    [[nodiscard]] virtual std::span<const std::string_view> steps() const = 0;
    [[nodiscard]] virtual StepPart part_of(Rank plan_rank) const = 0;

protected:
    StrategyPlan() = default;
};

/// All keep a reference to `planner`.
[[nodiscard]] std::unique_ptr<const StrategyPlan> make_relay(const Planner& planner,
                                                             const StepOptions& options);
[[nodiscard]] std::unique_ptr<const StrategyPlan> make_broadcast(const Planner& planner,
                                                                 const StepOptions& options);
[[nodiscard]] std::unique_ptr<const StrategyPlan> make_replica(const Planner& planner,
                                                               const StepOptions& options);

}  // namespace weightlift::plan::steps
