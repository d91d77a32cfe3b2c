// Rank tests: does one sample tend to lie above another? Nothing is assumed of the distribution;
// the p-values come from all ways to deal the pooled values to the two sides, ties included.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace weightlift::compare {

struct RankTest {
    double u = 0;  ///< pairs (b, n) with n > b, ties counted as one half
    double p = 1;  ///< two-sided
    bool is_exact = true;
};

/// Mann-Whitney of `base` and `next`. p is the share of all C(n+m, n) ways to deal the pooled
/// values whose rank sum is at least as far from its mean as the one seen. Beyond what can be
/// counted in some hundred milliseconds (some 100 launches a side) it is the normal approximation,
/// corrected for ties and continuity, and is_exact is false.
[[nodiscard]] RankTest mann_whitney(std::span<const double> base, std::span<const double> next);

/// The smallest two-sided p that distinct values of these sizes can give: 2 / C(n+m, n).
[[nodiscard]] double smallest_p(std::size_t base, std::size_t next);

/// Number of ways to deal n + m distinct values so that u is `u`, for u = 0 … n*m.
[[nodiscard]] std::vector<double> count_of_u(std::size_t n, std::size_t m);

/// One-sided p that `value` is as large as it is among `history`, if all were exchangeable:
/// (1 + number of earlier ones that are not smaller) / (N + 1).
[[nodiscard]] double rank_p(std::span<const double> history, double value);

/// Holm's step-down: p-values that may be held against one level for the whole family; in the
/// order given.
[[nodiscard]] std::vector<double> holm(std::span<const double> p);

}  // namespace weightlift::compare
