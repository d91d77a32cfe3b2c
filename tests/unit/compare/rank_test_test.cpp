#include "weightlift/compare/rank_test.hpp"

#include <bit>
#include <numeric>
#include <ostream>
#include <random>

#include <gtest/gtest.h>

namespace weightlift::compare {
namespace {

double p_of(const std::vector<double>& base, const std::vector<double>& next) {
    return mann_whitney(base, next).p;
}

/// The definition, by all ways to deal the pooled values.
double enumerated_p(const std::vector<double>& base, const std::vector<double>& next) {
    std::vector<double> pooled = base;
    pooled.insert(pooled.end(), next.begin(), next.end());
    const auto doubled_u = [](const std::vector<double>& a, const std::vector<double>& b) {
        long u = 0;
        for (const double x : a)
            for (const double y : b) u += y > x ? 2 : y == x ? 1 : 0;
        return u;
    };
    const auto mean = static_cast<long>(base.size() * next.size());  // of the doubled u
    const long seen = std::abs(doubled_u(base, next) - mean);
    std::size_t as_far = 0, all = 0;
    for (unsigned dealt = 0; dealt < 1U << pooled.size(); ++dealt) {  // bits: those of next
        if (static_cast<std::size_t>(std::popcount(dealt)) != next.size()) continue;
        std::vector<double> a, b;
        for (std::size_t i = 0; i < pooled.size(); ++i)
            (dealt >> i & 1U ? b : a).push_back(pooled[i]);
        ++all;
        if (std::abs(doubled_u(a, b) - mean) >= seen) ++as_far;
    }
    return static_cast<double>(as_far) / static_cast<double>(all);
}

TEST(RankTest, counts_of_u_are_those_counted_by_hand) {
    EXPECT_EQ(count_of_u(1, 1), (std::vector<double>{1, 1}));
    EXPECT_EQ(count_of_u(2, 2), (std::vector<double>{1, 1, 2, 1, 1}));
    EXPECT_EQ(count_of_u(3, 3), (std::vector<double>{1, 1, 2, 3, 3, 3, 3, 2, 1, 1}));
    EXPECT_EQ(count_of_u(4, 1), (std::vector<double>{1, 1, 1, 1, 1}));
}

TEST(RankTest, counts_of_u_add_up_to_the_binomial) {
    const std::vector<double> count = count_of_u(100, 100);
    const double all = std::accumulate(count.begin(), count.end(), 0.0);
    EXPECT_NEAR(all / 9.0548514656103281e58, 1, 1e-9);  // C(200, 100)
    for (std::size_t u = 0; u < count.size(); ++u)
        ASSERT_NEAR(count[u] / count[count.size() - 1 - u], 1, 1e-6) << u;
}

/// The tables of Mann and Whitney's u in statistics books: the largest u that is significant in a
/// two-sided test.
struct Critical {
    std::size_t n, m;
    std::ptrdiff_t at_5_percent, at_1_percent;  ///< -1: none is
};
std::ostream& operator<<(std::ostream& out, const Critical& row) {
    return out << row.n << " against " << row.m;
}

class PublishedTable : public testing::TestWithParam<Critical> {};

TEST_P(PublishedTable, critical_values) {
    const auto [n, m, at_5, at_1] = GetParam();
    const std::vector<double> count = count_of_u(n, m);
    const double all = std::accumulate(count.begin(), count.end(), 0.0);
    const auto largest = [&](double level) {
        std::ptrdiff_t found = -1;
        double tail = 0;
        for (std::size_t u = 0; u < count.size(); ++u) {
            tail += count[u];
            if (2 * tail / all > level) break;
            found = static_cast<std::ptrdiff_t>(u);
        }
        return found;
    };
    EXPECT_EQ(largest(0.05), at_5);
    EXPECT_EQ(largest(0.01), at_1);
}

INSTANTIATE_TEST_SUITE_P(, PublishedTable,
                         testing::Values(Critical{3, 3, -1, -1}, Critical{4, 4, 0, -1},
                                         Critical{4, 5, 1, -1}, Critical{5, 5, 2, 0},
                                         Critical{5, 6, 3, 1}, Critical{6, 6, 5, 2},
                                         Critical{7, 7, 8, 4}, Critical{8, 8, 13, 7},
                                         Critical{5, 10, 8, 4}, Critical{9, 9, 17, 11},
                                         Critical{10, 10, 23, 16}, Critical{12, 12, 37, 27},
                                         Critical{15, 15, 64, 51}, Critical{20, 20, 127, 105}));

TEST(RankTest, apart_samples_have_the_smallest_p) {
    EXPECT_DOUBLE_EQ(p_of({1, 2, 3}, {4, 5, 6}), 2.0 / 20);
    EXPECT_DOUBLE_EQ(p_of({1, 2, 3, 4}, {5, 6, 7, 8}), 2.0 / 70);
    EXPECT_DOUBLE_EQ(p_of({6, 7, 8, 9, 10}, {1, 2, 3, 4, 5}), 2.0 / 252);
    EXPECT_DOUBLE_EQ(smallest_p(3, 3), 2.0 / 20);
    EXPECT_DOUBLE_EQ(smallest_p(4, 4), 2.0 / 70);
    EXPECT_DOUBLE_EQ(smallest_p(5, 5), 2.0 / 252);
    EXPECT_DOUBLE_EQ(smallest_p(1, 1), 1.0);
    EXPECT_DOUBLE_EQ(smallest_p(0, 9), 1.0);
}

TEST(RankTest, one_swap_by_hand) {
    // u = 24 of 25: 1 + 1 of 252 deals are as far on each side.
    const RankTest test =
        mann_whitney(std::vector<double>{1, 2, 3, 4, 6}, std::vector<double>{5, 7, 8, 9, 10});
    EXPECT_DOUBLE_EQ(test.u, 24);
    EXPECT_DOUBLE_EQ(test.p, 4.0 / 252);
    EXPECT_TRUE(test.is_exact);
}

TEST(RankTest, ties_by_hand) {
    // Ranks 1, 2.5 and 2.5, 4. Of the six deals four have a rank sum 1.5 from the mean of 5.
    EXPECT_DOUBLE_EQ(p_of({1, 2}, {2, 3}), 4.0 / 6);
    EXPECT_DOUBLE_EQ(p_of({7, 7, 7, 7}, {7, 7, 7, 7, 7}), 1.0);
    // 1 1 1 | 2 2 2: only the two pure deals of 20.
    EXPECT_DOUBLE_EQ(p_of({1, 1, 1}, {2, 2, 2}), 2.0 / 20);
}

/// Hollander and Wolfe, permeability of the human chorioamnion; also in R's help of wilcox.test,
/// which gives W = 35 and a one-sided p of 0.1272.
TEST(RankTest, published_example) {
    const std::vector<double> term{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46};
    const std::vector<double> early{1.15, 0.88, 0.90, 0.74, 1.21};
    EXPECT_DOUBLE_EQ(mann_whitney(early, term).u, 35);
    EXPECT_NEAR(p_of(early, term), 0.2544, 5e-5);
}

TEST(RankTest, equals_the_enumeration) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 300; ++round) {
        std::vector<double> base(1 + random() % 6), next(1 + random() % 6);
        const std::uint64_t values = 2 + random() % 12;  // few: many ties
        for (auto* side : {&base, &next})
            for (double& value : *side) value = static_cast<double>(random() % values);
        EXPECT_NEAR(p_of(base, next), enumerated_p(base, next), 1e-12) << "round " << round;
        EXPECT_NEAR(p_of(base, next), p_of(next, base), 1e-12) << "round " << round;
    }
}

TEST(RankTest, large_samples_are_approximated_and_say_so) {
    std::mt19937_64 random(7);
    std::normal_distribution<double> noise(0, 1);
    const auto sample = [&](std::size_t size, double shift) {
        std::vector<double> values(size);
        for (double& value : values) value = noise(random) + shift;
        return values;
    };
    const std::vector<double> a = sample(100, 0), b = sample(100, 0.3);
    const RankTest exact = mann_whitney(a, b);
    EXPECT_TRUE(exact.is_exact);
    const RankTest large = mann_whitney(sample(400, 0), sample(400, 0.3));
    EXPECT_FALSE(large.is_exact);
    EXPECT_LT(large.p, 0.01);
    EXPECT_GT(mann_whitney(sample(400, 0), sample(400, 0)).p, 1e-4);
}

TEST(RankTest, nothing_to_test_is_no_evidence) {
    EXPECT_DOUBLE_EQ(p_of({}, {1, 2}), 1.0);
    EXPECT_DOUBLE_EQ(p_of({1, 2}, {}), 1.0);
}

TEST(RankP, counts_earlier_values_that_are_not_smaller) {
    std::vector<double> nights(20);
    std::iota(nights.begin(), nights.end(), 1.0);
    EXPECT_DOUBLE_EQ(rank_p(nights, 21), 1.0 / 21);
    EXPECT_DOUBLE_EQ(rank_p(nights, 20), 2.0 / 21);  // a tie is no evidence
    EXPECT_DOUBLE_EQ(rank_p(nights, 0), 1.0);
    EXPECT_DOUBLE_EQ(rank_p({}, 5), 1.0);
}

TEST(Holm, known_example) {
    const std::vector<double> adjusted = holm(std::vector<double>{0.01, 0.04, 0.03, 0.005});
    const std::vector<double> expected{0.03, 0.06, 0.06, 0.02};  // as R's p.adjust
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(adjusted[i], expected[i], 1e-12);
    EXPECT_TRUE(holm({}).empty());
    EXPECT_EQ(holm(std::vector<double>{0.9, 0.8}), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace weightlift::compare
