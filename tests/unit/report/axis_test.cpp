#include "report/axis.hpp"

#include <gtest/gtest.h>

namespace weightlift::report {
namespace {

TEST(Axis, linear_maps_its_ends_and_its_middle) {
    const Axis axis = Axis::linear(0, 10, 100, 0);
    EXPECT_DOUBLE_EQ(axis(0), 100);
    EXPECT_DOUBLE_EQ(axis(5), 50);
    EXPECT_DOUBLE_EQ(axis(10), 0);
}

TEST(Axis, logarithmic_gives_every_factor_the_same_room) {
    const Axis axis = Axis::logarithmic(1, 10'000, 0, 100);
    EXPECT_NEAR(axis(10), 25, 1e-9);
    EXPECT_NEAR(axis(1000), 75, 1e-9);
}

TEST(Axis, an_empty_range_is_still_an_axis) {
    EXPECT_DOUBLE_EQ(Axis::linear(3, 3, 0, 1)(3), 0);
    EXPECT_DOUBLE_EQ(Axis::logarithmic(3, 3, 0, 1)(3), 0);
}

struct TickCase {
    const char* name;
    Axis axis;
    std::vector<double> ticks;
};

TEST(Axis, ticks_are_round_and_few) {
    const TickCase cases[] = {
        {"to 0.55", Axis::linear(0, 0.55, 0, 1), {0, 0.1, 0.2, 0.3, 0.4, 0.5}},
        {"to 7", Axis::linear(0, 7, 0, 1), {0, 2, 4, 6}},
        {"1 to 22", Axis::linear(1, 22, 0, 1), {5, 10, 15, 20}},
        {"to 240000", Axis::linear(0, 240'000, 0, 1), {0, 50'000, 100'000, 150'000, 200'000}},
        {"a decade", Axis::logarithmic(4, 40, 0, 1), {5, 10, 20}},
        {"six decades", Axis::logarithmic(50, 3e6, 0, 1), {100, 1e3, 1e4, 1e5, 1e6}},
    };
    for (const TickCase& c : cases) {
        const auto ticks = c.axis.ticks();
        ASSERT_EQ(ticks.size(), c.ticks.size()) << c.name;
        for (std::size_t i = 0; i < ticks.size(); ++i)
            EXPECT_NEAR(ticks[i], c.ticks[i], 1e-9 * c.ticks.back()) << c.name;
    }
}

}  // namespace
}  // namespace weightlift::report
