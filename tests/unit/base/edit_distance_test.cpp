#include "weightlift/base/edit_distance.hpp"

#include <gtest/gtest.h>

namespace weightlift {
namespace {

TEST(EditDistance, counts_insertions_deletions_and_substitutions) {
    EXPECT_EQ(edit_distance("", ""), 0U);
    EXPECT_EQ(edit_distance("engines", "engines"), 0U);
    EXPECT_EQ(edit_distance("engine", "engines"), 1U);
    EXPECT_EQ(edit_distance("enginess", "engines"), 1U);
    EXPECT_EQ(edit_distance("tp", "pp"), 1U);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
    EXPECT_EQ(edit_distance("abc", ""), 3U);
    EXPECT_EQ(edit_distance("", "abc"), 3U);
}

}  // namespace
}  // namespace weightlift
