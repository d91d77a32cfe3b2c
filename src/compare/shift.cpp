#include "weightlift/compare/shift.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "weightlift/base/error.hpp"
#include "weightlift/compare/rank_test.hpp"

namespace weightlift::compare {

namespace {

double median_of_sorted(const std::vector<double>& sorted) {
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/// The largest number of differences that may be cut off at each end, and the coverage then left.
/// Below zero: none may, and the whole range covers too little.
std::pair<std::ptrdiff_t, double> cut_off(std::size_t n, std::size_t m, double coverage) {
    // Past this the counts leave what a double holds exactly; the normal approximation is as good.
    if (n + m > 200) {
        const double mean = static_cast<double>(n * m) / 2;
        const double deviation = std::sqrt(static_cast<double>(n * m * (n + m + 1)) / 12);
        double z = 0;
        while (std::erf(z / std::sqrt(2.0)) < coverage) z += 1e-4;
        return {static_cast<std::ptrdiff_t>(std::floor(mean - z * deviation)), coverage};
    }
    const std::vector<double> count = count_of_u(n, m);
    const double all = std::accumulate(count.begin(), count.end(), 0.0);
    std::ptrdiff_t cut = -1;
    double left = 1, tail = 0;
    for (std::size_t u = 0; u < count.size(); ++u) {
        tail += count[u];
        if (1 - 2 * tail / all < coverage) break;
        left = 1 - 2 * tail / all;
        cut = static_cast<std::ptrdiff_t>(u);
    }
    return {cut, left};
}

}  // namespace

double median(std::span<const double> values) {
    WEIGHTLIFT_ENSURES(!values.empty());
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    return median_of_sorted(sorted);
}

Shift hodges_lehmann(std::span<const double> base, std::span<const double> next, double coverage) {
    WEIGHTLIFT_ENSURES(!base.empty() && !next.empty());
    std::vector<double> differences;
    differences.reserve(base.size() * next.size());
    for (const double b : base)
        for (const double n : next) differences.push_back(n - b);
    std::sort(differences.begin(), differences.end());

    Shift shift;
    shift.estimate = median_of_sorted(differences);
    // The shifts d for which u of (base + d, next) is above the cut on both sides lie between the
    // (cut + 1)-th difference from below and the one from above.
    const auto [cut, left] = cut_off(base.size(), next.size(), coverage);
    if (cut >= 0) {
        const auto skip = static_cast<std::size_t>(cut);
        shift.interval = {differences[skip], differences[differences.size() - 1 - skip], left};
    }
    return shift;
}

}  // namespace weightlift::compare
