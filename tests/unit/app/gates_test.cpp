#include "app/gates.hpp"

#include <gtest/gtest.h>

#include "weightlift/base/error.hpp"

namespace weightlift::app {
namespace {

record::CaseInfo info() {
    record::CaseInfo one;
    one.key = "k";
    one.line_rate = 50'000'000'000;
    return one;
}

record::Summary summary() {
    record::Summary s;
    s.iterations = 3;
    s.p50_ns = 90'000'000;
    s.portbw = 42.5e9;
    return s;
}

TEST(Gates, bounds_are_met_at_the_bound) {
    EXPECT_TRUE(broken_gates(parse_gates({"85%", "90ms", ""}), info(), summary()).empty());
    EXPECT_TRUE(broken_gates(parse_gates({}), info(), summary()).empty());
}

TEST(Gates, name_metric_measured_value_and_bound) {
    const auto broken = broken_gates(parse_gates({"86%", "89ms", ""}), info(), summary());
    ASSERT_EQ(broken.size(), 2U);
    EXPECT_EQ(describe(broken[0]), "k: p50_ms is 90, above the 89 of --max-time");
    EXPECT_EQ(describe(broken[1]), "k: line_percent is 85, below the 86 of --min-line");
}

TEST(Gates, what_was_not_measured_is_below) {
    const auto broken = broken_gates(parse_gates({"1%", "1h", ""}), {}, {});
    ASSERT_EQ(broken.size(), 2U);
    EXPECT_FALSE(broken[0].measured);
    EXPECT_FALSE(broken[1].measured);
}

TEST(Gates, values_are_parsed_before_anything_runs) {
    EXPECT_THROW((void)parse_gates({"lots", "", ""}), ConfigError);
    EXPECT_THROW((void)parse_gates({"", "soon", ""}), ConfigError);
}

}  // namespace
}  // namespace weightlift::app
