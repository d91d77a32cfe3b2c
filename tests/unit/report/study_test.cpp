#include "report/study.hpp"

#include <gtest/gtest.h>

#include "runs.hpp"

namespace weightlift::report {
namespace {

using made_up::one_case;

std::vector<std::string> names(const Study& study) {
    std::vector<std::string> out;
    for (const Group& group : study.groups) out.push_back(group.name);
    return out;
}

TEST(Study, cases_of_one_key_stand_together_over_files) {
    const std::vector runs{made_up::run("a.h5", {one_case("x"), one_case("y")}),
                           made_up::run("b.h5", {one_case("y"), one_case("z")})};
    const Study study(runs);
    EXPECT_EQ(names(study), (std::vector<std::string>{"x", "y", "z"}));
    ASSERT_EQ(study.groups[1].entries.size(), 2U);
    EXPECT_EQ(study.groups[1].entries[0].file, 0U);
    EXPECT_EQ(study.groups[1].entries[0].number, 1U);
    EXPECT_EQ(study.groups[1].entries[1].file, 1U);
    EXPECT_EQ(study.groups[1].entries[1].number, 0U);
}

TEST(Study, a_swept_option_is_part_of_the_name) {
    const std::vector runs{
        made_up::run("a.h5", {one_case("x", R"({"verbs":{"qps":1},"window":5})"),
                              one_case("x", R"({"verbs":{"qps":4},"window":5})")}),
        made_up::run("b.h5", {one_case("x", R"({"verbs":{"qps":4},"window":9})")})};
    const Study study(runs);
    EXPECT_EQ(names(study), (std::vector<std::string>{"x verbs.qps=1", "x verbs.qps=4"}));
    EXPECT_EQ(study.groups[1].entries.size(), 2U);
}

TEST(Study, launches_of_one_file_that_differ_in_nothing_are_one_case) {
    const std::vector runs{made_up::run("a.h5", {one_case("x"), one_case("x")})};
    const Study study(runs);
    ASSERT_EQ(study.groups.size(), 1U);
    EXPECT_EQ(study.groups[0].entries.size(), 2U);
}

TEST(Study, other_plans_of_the_same_key_are_told_apart) {
    auto other = one_case("x");
    other.info.plan_digest = 0x1234;
    const std::vector runs{made_up::run("a.h5", {one_case("x")}), made_up::run("b.h5", {other})};
    EXPECT_EQ(names(Study(runs)),
              (std::vector<std::string>{"x plan 000000000000abcd", "x plan 0000000000001234"}));
}

TEST(Study, options_that_are_no_json_tell_nothing) {
    const std::vector runs{made_up::run("a.h5", {one_case("x", "{"), one_case("x", "[1]")})};
    EXPECT_EQ(names(Study(runs)), (std::vector<std::string>{"x"}));
}

TEST(Study, files_have_letters_then_numbers) {
    EXPECT_EQ(file_label(0), "A");
    EXPECT_EQ(file_label(25), "Z");
    EXPECT_EQ(file_label(26), "27");
}

}  // namespace
}  // namespace weightlift::report
