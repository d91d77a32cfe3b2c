#include "weightlift/compare/rank_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace weightlift::compare {

namespace {

/// Twice the midrank of each pooled value, base first: whole numbers, ties included.
std::vector<std::uint64_t> double_ranks(std::span<const double> base,
                                        std::span<const double> next) {
    std::vector<double> pooled(base.begin(), base.end());
    pooled.insert(pooled.end(), next.begin(), next.end());
    std::vector<std::size_t> order(pooled.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return pooled[a] < pooled[b]; });
    std::vector<std::uint64_t> ranks(pooled.size());
    for (std::size_t first = 0; first < order.size();) {
        std::size_t end = first + 1;
        while (end < order.size() && pooled[order[end]] == pooled[order[first]]) ++end;
        for (std::size_t i = first; i < end; ++i) ranks[order[i]] = first + end + 1;
        first = end;
    }
    return ranks;
}

/// By sum: the number of ways to choose `choose` of `ranks`. Doubles hold what 64 bits do not.
std::vector<double> ways_to_choose(std::span<const std::uint64_t> ranks, std::size_t choose) {
    const std::uint64_t most = std::accumulate(ranks.begin(), ranks.end(), std::uint64_t{0});
    std::vector<std::vector<double>> ways(choose + 1, std::vector<double>(most + 1, 0));
    ways[0][0] = 1;
    std::size_t seen = 0;
    std::uint64_t reached = 0;
    for (const std::uint64_t rank : ranks) {
        reached += rank;
        for (std::size_t k = std::min(++seen, choose); k > 0; --k)
            for (std::uint64_t sum = reached; sum >= rank; --sum)
                ways[k][sum] += ways[k - 1][sum - rank];
    }
    return std::move(ways[choose]);
}

double exact_p(std::span<const std::uint64_t> ranks, std::size_t next_size, std::uint64_t seen) {
    const std::vector<double> ways = ways_to_choose(ranks, next_size);
    // Mean of the sum is next_size * total / size; both sides times size stay whole numbers.
    const auto size = static_cast<std::int64_t>(ranks.size());
    const auto mean =
        static_cast<std::int64_t>(next_size) *
        static_cast<std::int64_t>(std::accumulate(ranks.begin(), ranks.end(), std::uint64_t{0}));
    const auto distance = [&](std::size_t sum) {
        return std::abs(size * static_cast<std::int64_t>(sum) - mean);
    };
    double as_far = 0, all = 0;
    for (std::size_t sum = 0; sum < ways.size(); ++sum) {
        all += ways[sum];
        if (distance(sum) >= distance(seen)) as_far += ways[sum];
    }
    return as_far / all;
}

double normal_p(std::span<const std::uint64_t> ranks, double n, double m, double u) {
    double ties = 0;
    std::vector<std::uint64_t> sorted(ranks.begin(), ranks.end());
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t first = 0; first < sorted.size();) {
        std::size_t end = first;
        while (end < sorted.size() && sorted[end] == sorted[first]) ++end;
        const auto t = static_cast<double>(end - first);
        ties += t * t * t - t;
        first = end;
    }
    const double size = n + m;
    const double variance = n * m / 12 * (size + 1 - ties / (size * (size - 1)));
    if (variance <= 0) return 1;
    const double z = std::max(0.0, std::abs(u - n * m / 2) - 0.5) / std::sqrt(variance);
    return std::erfc(z / std::sqrt(2.0));
}

}  // namespace

RankTest mann_whitney(std::span<const double> base, std::span<const double> next) {
    RankTest test;
    if (base.empty() || next.empty()) return test;
    const std::vector<std::uint64_t> ranks = double_ranks(base, next);
    const std::uint64_t seen = std::accumulate(
        ranks.begin() + static_cast<std::ptrdiff_t>(base.size()), ranks.end(), std::uint64_t{0});
    const auto n = static_cast<double>(base.size()), m = static_cast<double>(next.size());
    test.u = static_cast<double>(seen) / 2 - m * (m + 1) / 2;
    // Steps of the count: values x chosen x sums.
    constexpr double kMostSteps = 4e8;
    const double size = n + m;
    test.is_exact = size * m * size * (size + 1) / 3 <= kMostSteps;
    test.p = test.is_exact ? exact_p(ranks, next.size(), seen) : normal_p(ranks, n, m, test.u);
    return test;
}

double smallest_p(std::size_t base, std::size_t next) {
    if (base == 0 || next == 0) return 1;
    double ways = 1;  // C(base + next, next)
    for (std::size_t i = 1; i <= next; ++i)
        ways = ways * static_cast<double>(base + i) / static_cast<double>(i);
    return std::min(1.0, 2 / ways);
}

std::vector<double> count_of_u(std::size_t n, std::size_t m) {
    // The coefficients of the Gaussian binomial: times (1 - x^(n+i)), over (1 - x^i), i = 1 … m.
    std::vector<double> count(n * m + 1, 0);
    count[0] = 1;
    for (std::size_t i = 1; i <= m; ++i) {
        // The upper half mirrors the lower one, which has nothing to cancel.
        const std::size_t degree = n * i;
        for (std::size_t u = degree / 2 + 1; u-- > n + i;) count[u] -= count[u - n - i];
        for (std::size_t u = i; u <= degree / 2; ++u) count[u] += count[u - i];
        for (std::size_t u = degree / 2 + 1; u <= degree; ++u) count[u] = count[degree - u];
    }
    return count;
}

double rank_p(std::span<const double> history, double value) {
    const auto not_smaller =
        std::count_if(history.begin(), history.end(), [&](double h) { return h >= value; });
    return static_cast<double>(1 + not_smaller) / static_cast<double>(history.size() + 1);
}

std::vector<double> holm(std::span<const double> p) {
    std::vector<std::size_t> order(p.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
    std::vector<double> adjusted(p.size());
    double least = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        least = std::max(least, static_cast<double>(p.size() - i) * p[order[i]]);
        adjusted[order[i]] = std::min(1.0, least);
    }
    return adjusted;
}

}  // namespace weightlift::compare
