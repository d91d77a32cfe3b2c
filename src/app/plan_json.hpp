// The plan as JSON, schema weightlift-plan/1 (README, "plan --format json").
#pragma once

#include <cstdio>

#include "weightlift/plan/planner.hpp"

#include "step_plan.hpp"

namespace weightlift::app {

enum class PlanView { Transfers, Merged };

/// Streams the plan: one entry per transfer, or (Merged) per copy as it is executed, named by the
/// parameter in which it begins. Memory does not grow with the plan.
void write_plan_json(std::FILE* out, const Scene& scene, const plan::Planner& planner,
                     std::uint64_t digest, Bytes bytes, PlanView view);
/// The same of a strategy in steps: one entry per copy as it is executed, with its segment; then
/// what segments wait for. `bytes`: what the rollouts want.
void write_step_plan_json(std::FILE* out, const StepPlanInputs& in, const StepTotals& totals,
                          Bytes bytes);

}  // namespace weightlift::app
