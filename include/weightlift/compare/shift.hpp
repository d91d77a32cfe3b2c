// By how much one sample lies above another: Hodges and Lehmann's estimate and its interval.
#pragma once

#include <optional>
#include <span>

namespace weightlift::compare {

struct Interval {
    double low = 0, high = 0;
    double level = 0;  ///< the coverage it really has, at least what was asked for
};

struct Shift {
    double estimate = 0;  ///< median of all differences next - base
    /// From the exact distribution of Mann-Whitney's u; none where even the widest interval, from
    /// the least to the greatest difference, does not reach the coverage.
    std::optional<Interval> interval;
};

/// Both samples must not be empty.
[[nodiscard]] Shift hodges_lehmann(std::span<const double> base, std::span<const double> next,
                                   double coverage = 0.95);

/// Mean of the two middle values where their number is even; the sample must not be empty.
[[nodiscard]] double median(std::span<const double> values);

}  // namespace weightlift::compare
