// The plan as JSON, schema weightlift-plan/1 (README, "plan --format json").
#pragma once

#include <cstdio>

#include "weightlift/plan/planner.hpp"

#include "inputs.hpp"

namespace weightlift::app {

enum class PlanView { Transfers, Merged };

/// Streams the plan: one entry per transfer, or (Merged) per copy as it is executed, named by the
/// parameter in which it begins. Memory does not grow with the plan.
void write_plan_json(std::FILE* out, const Scene& scene, const plan::Planner& planner,
                     std::uint64_t digest, Bytes bytes, PlanView view);

}  // namespace weightlift::app
