#include "weightlift/base/error.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace weightlift {
namespace {

template <class E>
ExitCode code_of() {
    return E("text").code();
}

TEST(Error, carries_the_exit_code_it_leads_to) {
    EXPECT_EQ(code_of<ConfigError>(), ExitCode::Usage);
    EXPECT_EQ(code_of<TransportError>(), ExitCode::Transport);
    EXPECT_EQ(code_of<DeadlineError>(), ExitCode::Deadline);
    EXPECT_EQ(code_of<ResultsError>(), ExitCode::ResultsFile);
}

TEST(NameSome, names_four_and_counts_the_others) {
    const std::vector<std::string> names{"a", "b", "c", "d", "e", "f"};
    const std::span<const std::string> all(names);
    EXPECT_EQ(name_some({}), "");
    EXPECT_EQ(name_some(all.first(1)), "a");
    EXPECT_EQ(name_some(all.first(4), "hosts"), "a, b, c, d");
    EXPECT_EQ(name_some(all, "hosts"), "a, b, c, d and 2 more hosts");
    EXPECT_EQ(name_some(all), "a, b, c, d and 2 more");
}

TEST(Ensures, names_expression_and_place_of_our_own_bug) {
    int evaluated = 0;
    WEIGHTLIFT_ENSURES(++evaluated == 1);
    EXPECT_EQ(evaluated, 1);
    try {
        WEIGHTLIFT_ENSURES(evaluated == 2);
        FAIL() << "not thrown";
    } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_EQ(error.code(), ExitCode::Internal);
        EXPECT_NE(text.find("evaluated == 2 does not hold"), std::string::npos) << text;
        EXPECT_NE(text.find("error_test.cpp:"), std::string::npos) << text;
    }
}

}  // namespace
}  // namespace weightlift
