// sweep --dry-run: what would run.
#pragma once

#include <optional>
#include <vector>

#include "cases.hpp"

namespace weightlift::app::sweep {

/// Prints cases with ranks, bytes, memory and predicted time (with a cluster; N/A without), those
/// that cannot be with the rule, and totals; or the same as JSON (weightlift-sweep/1).
void print_cases(const std::vector<Case>& cases, std::optional<int> launched, bool as_json);

}  // namespace weightlift::app::sweep
