#include "weightlift/compare/references.hpp"

#include <ostream>

#include <gtest/gtest.h>

#include "weightlift/base/error.hpp"

namespace weightlift::compare {
namespace {

record::CaseInfo info() {
    record::CaseInfo one;
    one.key = "k";
    one.line_rate = 50'000'000'000;
    one.floor_ns = 80'000'000;
    return one;
}

record::Summary summary() {
    record::Summary s;
    s.iterations = 5;
    s.p50_ns = 90'000'000;
    s.portbw = 45e9;
    s.algbw = 10e9;
    return s;
}

std::vector<OutOfBounds> checked(const Reference& reference) {
    return check(std::vector{reference}, info(), summary());
}

TEST(References, are_read_with_one_bound_or_both) {
    const auto list = parse_references(
        R"({"schema": "weightlift-references/1", "references": [
             {"case": "k", "metric": "p50_ms", "upper": 95},
             {"case": "k", "metric": "line_percent", "lower": 85, "upper": 100}]})",
        "refs.json");
    ASSERT_EQ(list.size(), 2U);
    EXPECT_FALSE(list[0].lower);
    EXPECT_EQ(list[0].upper, 95);
    EXPECT_EQ(list[1].metric, "line_percent");
    EXPECT_EQ(list[1].lower, 85);
}

struct Bad {
    const char* name;
    const char* text;
    const char* says;
};
std::ostream& operator<<(std::ostream& out, const Bad& bad) { return out << bad.name; }
class BadReferences : public testing::TestWithParam<Bad> {};

TEST_P(BadReferences, are_refused) {
    try {
        (void)parse_references(GetParam().text, "refs.json");
        FAIL() << "accepted";
    } catch (const ConfigError& error) {
        EXPECT_EQ(std::string(error.what()).find("refs.json: "), 0U) << error.what();
        EXPECT_NE(std::string(error.what()).find(GetParam().says), std::string::npos)
            << error.what();
    }
}

#define IN_LIST(entry) R"({"schema": "weightlift-references/1", "references": [)" entry "]}"
INSTANTIATE_TEST_SUITE_P(
    , BadReferences,
    testing::Values(
        Bad{"no_json", "{", "is not JSON"},
        Bad{"other_schema", R"({"schema": "weightlift-layout/1"})", "schema is not"},
        Bad{"no_object", "[]", "schema is not"},
        Bad{"no_list", R"({"schema": "weightlift-references/1"})", "references is not a list"},
        Bad{"no_entry", IN_LIST("7"), "references[0] is not an object"},
        Bad{"no_case", IN_LIST(R"({"metric": "p50_ms", "upper": 1})"), "names no case"},
        Bad{"metric", IN_LIST(R"({"case": "k", "metric": "p50", "upper": 1})"), "metric 'p50'"},
        Bad{"no_bound", IN_LIST(R"({"case": "k", "metric": "p50_ms"})"), "neither lower nor upper"},
        Bad{"text_bound", IN_LIST(R"({"case": "k", "metric": "p50_ms", "upper": "9"})"),
            "upper is not a number"},
        Bad{"crossed", IN_LIST(R"({"case": "k", "metric": "p50_ms", "lower": 2, "upper": 1})"),
            "the lower bound 2 above the upper 1"},
        Bad{"unknown_key", IN_LIST(R"({"case": "k", "metric": "p50_ms", "max": 1})"), "key max"}),
    [](const auto& row) { return row.param.name; });

TEST(References, bounds_of_times_and_rates_have_opposite_senses) {
    EXPECT_TRUE(checked({"k", "p50_ms", 80, 95}).empty());
    EXPECT_TRUE(checked({"k", "p50_ms", 90, 90}).empty()) << "bounds belong to what is allowed";
    EXPECT_TRUE(checked({"other", "p50_ms", 1, 2}).empty());

    const auto slow = checked({"k", "p50_ms", {}, 85});
    ASSERT_EQ(slow.size(), 1U);
    EXPECT_FALSE(slow[0].is_implausible);
    EXPECT_EQ(describe(slow[0]), "k: p50_ms is 90, above the 85 of the reference");

    const auto fast = checked({"k", "p50_ms", 100, {}});
    ASSERT_EQ(fast.size(), 1U);
    EXPECT_TRUE(fast[0].is_implausible);
    EXPECT_EQ(describe(fast[0]),
              "k: p50_ms is 90, below the 100 of the reference: implausibly good");

    EXPECT_FALSE(checked({"k", "line_percent", 95, {}}).at(0).is_implausible);
    EXPECT_TRUE(checked({"k", "line_percent", {}, 85}).at(0).is_implausible);
}

TEST(References, what_is_not_measured_was_not_kept) {
    const auto broken = checked({"k", "p99_ms", {}, 100});
    ASSERT_EQ(broken.size(), 1U);
    EXPECT_FALSE(broken[0].measured);
    EXPECT_FALSE(broken[0].is_implausible);
    EXPECT_EQ(describe(broken[0]),
              "k: p99_ms is not measured, and the reference wants at most 100");
}

TEST(References, metrics_are_those_of_the_table) {
    EXPECT_DOUBLE_EQ(value_of("p50_ms", info(), summary()).value(), 90);
    EXPECT_DOUBLE_EQ(value_of("line_percent", info(), summary()).value(), 90);
    EXPECT_DOUBLE_EQ(value_of("x_floor", info(), summary()).value(), 1.125);
    EXPECT_DOUBLE_EQ(value_of("algbw_gb_per_s", info(), summary()).value(), 10);
    EXPECT_FALSE(value_of("p99_ms", info(), summary()));
    EXPECT_FALSE(value_of("nonsense", info(), summary()));
}

TEST(Floor, faster_than_possible_is_flagged) {
    EXPECT_FALSE(check_floor(info(), summary()));
    record::CaseInfo one = info();
    one.floor_ns = 100'000'000;
    EXPECT_TRUE(check_floor(one, summary()).value().is_implausible);
    one.floor_ns = 92'000'000;
    EXPECT_FALSE(check_floor(one, summary())) << "0.978 of the floor";
    one.floor_ns = record::kNotMeasured;
    EXPECT_FALSE(check_floor(one, summary()));
}

}  // namespace
}  // namespace weightlift::compare
