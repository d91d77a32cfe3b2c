// References: what a case is expected to reach, with a bound on both sides, since what is better
// than possible is as wrong as what is too slow. A metric without a reference is not judged.
//
//   {"schema": "weightlift-references/1", "references": [
//     {"case": "moonlight-16b-a3b/tp=8/tp=16/direct/verbs", "metric": "p50_ms", "lower": 80,
//     "upper": 95},
//     {"case": "moonlight-16b-a3b/tp=8/tp=16/direct/verbs", "metric": "line_percent", "lower": 85,
//     "upper": 100}]}
//
// Metrics: first_ms, min_ms, p50_ms, p99_ms, max_ms, x_floor (lower is better); algbw_gb_per_s,
// portbw_gb_per_s, line_percent (higher is better). Their definitions are those of the table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightlift/record/run_record.hpp"

namespace weightlift::compare {

struct Reference {
    std::string key, metric;
    std::optional<double> lower, upper;  ///< at least one of them
};

/// ConfigError naming `source`, the entry and the rule.
[[nodiscard]] std::vector<Reference> parse_references(std::string_view text,
                                                      const std::string& source);

/// A bound that was not kept.
struct OutOfBounds {
    std::string key, metric;
    std::optional<double> measured;  ///< none: not measured, so that it cannot have been kept
    double bound = 0;
    bool is_below = false;        ///< the measured value lies below the bound, which is a lower one
    bool is_implausible = false;  ///< better than the bound allows
    std::string source;           ///< "--max-time", "the reference", "the floor"
};
/// "KEY: p50_ms is 91.2, above the 90 of --max-time".
[[nodiscard]] std::string describe(const OutOfBounds& bound);

/// None where it is not measured, or no metric.
[[nodiscard]] std::optional<double> value_of(std::string_view metric, const record::CaseInfo& info,
                                             const record::Summary& summary);

/// References of this case that were not kept.
[[nodiscard]] std::vector<OutOfBounds> check(std::span<const Reference> references,
                                             const record::CaseInfo& info,
                                             const record::Summary& summary);
/// Faster than 0.95 of the plan's floor on the cluster named.
[[nodiscard]] std::optional<OutOfBounds> check_floor(const record::CaseInfo& info,
                                                     const record::Summary& summary);

}  // namespace weightlift::compare
