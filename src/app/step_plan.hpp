// What `plan --strategy` says of a strategy in steps.
#pragma once

#include <string>

#include "weightlift/plan/steps.hpp"

#include "inputs.hpp"

namespace weightlift::app {

struct StepPlanInputs {
    const Scene& scene;
    const plan::Planner& planner;
    const plan::StepPlanner& stepper;
    plan::Strategy strategy = plan::Strategy::Relay;
    Bytes staging_limit = 0;
};

/// Totals of all ranks' parts, made one rank at a time.
struct StepTotals {
    struct Step {
        std::uint64_t segments = 0, credits = 0, copies = 0;
        Bytes moved = 0, within = 0;  ///< between ranks; from a rank to itself
    };
    std::vector<Step> steps;                     ///< as StepPlanner::steps()
    std::vector<Bytes> sent, received, staging;  ///< by plan rank; without what stays within it
    std::uint64_t gates = 0, pairs = 0;
    std::uint64_t digest = 0;  ///< of a push
    [[nodiscard]] Step sum() const;
};
[[nodiscard]] StepTotals gather_totals(const plan::Planner& planner,
                                       const plan::StepPlanner& stepper);

/// Tables of steps and ranks, and who has the most to do.
[[nodiscard]] std::string step_plan_text(const StepPlanInputs& in, const StepTotals& totals);

}  // namespace weightlift::app
