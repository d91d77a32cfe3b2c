#include "weightlift/compare/shift.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/compare/rank_test.hpp"

namespace weightlift::compare {
namespace {

using Values = std::vector<double>;

TEST(Median, of_odd_and_even_numbers) {
    EXPECT_DOUBLE_EQ(median(Values{3}), 3);
    EXPECT_DOUBLE_EQ(median(Values{3, 1, 2}), 2);
    EXPECT_DOUBLE_EQ(median(Values{4, 1, 3, 2}), 2.5);
}

TEST(Shift, by_hand) {
    // Differences 2 3 4 | 1 2 3 | 0 1 2: the median of 0 1 1 2 2 2 3 3 4.
    const Shift shift = hodges_lehmann(Values{1, 2, 3}, Values{3, 4, 5});
    EXPECT_DOUBLE_EQ(shift.estimate, 2);
    EXPECT_FALSE(shift.interval) << "3 against 3 reach 90 % at most";
}

TEST(Shift, interval_of_four_against_four_is_the_whole_range) {
    const Shift shift = hodges_lehmann(Values{10, 11, 12, 13}, Values{20, 22, 24, 26});
    ASSERT_TRUE(shift.interval);
    EXPECT_DOUBLE_EQ(shift.interval->low, 7);
    EXPECT_DOUBLE_EQ(shift.interval->high, 16);
    EXPECT_NEAR(shift.interval->level, 1 - 2.0 / 70, 1e-12);
}

TEST(Shift, interval_of_five_against_five_leaves_out_two_at_each_end) {
    // u = 2 is significant (4/252 each side), so that the third difference is the bound.
    const Shift shift = hodges_lehmann(Values{0, 0.1, 0.2, 0.3, 0.4}, Values{10, 11, 12, 13, 14});
    ASSERT_TRUE(shift.interval);
    EXPECT_DOUBLE_EQ(shift.interval->low, 10 - 0.2);
    EXPECT_DOUBLE_EQ(shift.interval->high, 14 - 0.2);
    EXPECT_NEAR(shift.interval->level, 1 - 2 * 4.0 / 252, 1e-12);
}

/// Hollander and Wolfe, permeability of the human chorioamnion: estimate -0.305 and, at 96 %, the
/// interval (-0.76, 0.15).
TEST(Shift, published_example) {
    const Values term{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46};
    const Values early{1.15, 0.88, 0.90, 0.74, 1.21};
    const Shift shift = hodges_lehmann(term, early, 0.95);
    EXPECT_NEAR(shift.estimate, -0.305, 1e-9);
    ASSERT_TRUE(shift.interval);
    EXPECT_NEAR(shift.interval->low, -0.76, 1e-9);
    EXPECT_NEAR(shift.interval->high, 0.15, 1e-9);
    EXPECT_NEAR(shift.interval->level, 0.96, 0.003);
}

/// The interval is the set of shifts that the test does not reject.
TEST(Shift, interval_ends_where_the_test_begins_to_reject) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(0, 1);
    for (int round = 0; round < 100; ++round) {
        Values base(4 + random() % 5), next(4 + random() % 5);
        for (double& value : base) value = 100 + noise(random);
        for (double& value : next) value = 103 + 2 * noise(random);
        const Shift shift = hodges_lehmann(base, next);
        ASSERT_TRUE(shift.interval);
        const auto p_at = [&](double by) {
            Values moved = base;
            for (double& value : moved) value += by;
            return mann_whitney(moved, next).p;
        };
        const double margin = 1e-9;
        EXPECT_GE(p_at(shift.interval->low + margin), 0.05) << round;
        EXPECT_LT(p_at(shift.interval->low - margin), 0.05) << round;
        EXPECT_GE(p_at(shift.interval->high - margin), 0.05) << round;
        EXPECT_LT(p_at(shift.interval->high + margin), 0.05) << round;
    }
}

TEST(Shift, many_launches_narrow_the_interval) {
    std::mt19937_64 random(3);
    std::normal_distribution<double> noise(0, 1);
    Values base(300), next(300);
    for (double& value : base) value = noise(random);
    for (double& value : next) value = noise(random) + 1;
    const Shift shift = hodges_lehmann(base, next);
    ASSERT_TRUE(shift.interval);
    EXPECT_LT(shift.interval->high - shift.interval->low, 0.5);
    EXPECT_LT(shift.interval->low, 1);
    EXPECT_GT(shift.interval->high, 1);
}

}  // namespace
}  // namespace weightlift::compare
