#include "weightlift/plan/groups.hpp"

#include <gtest/gtest.h>

namespace weightlift::plan {
namespace {

TEST(Groups, stand_by_node_in_the_order_of_their_first_ranks) {
    const std::vector<Rank> ranks{1, 2, 3, 5, 6};
    const Groups groups(ranks, {9, 7, 4, 7, 0, 4, 7});
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_EQ(groups.members(0), (std::vector<Rank>{1, 3, 6}));
    EXPECT_EQ(groups.members(1), (std::vector<Rank>{2, 5}));
    EXPECT_EQ(groups.seat_of(6).group, 0U);
    EXPECT_EQ(groups.seat_of(6).member, 2U);
    EXPECT_EQ(groups.seat_of(5).group, 1U);
}

TEST(Groups, are_single_ranks_where_no_nodes_are_given) {
    const std::vector<Rank> ranks{4, 8};
    const Groups groups(ranks, {});
    EXPECT_EQ(groups.size(), 2U);
    EXPECT_EQ(groups.lanes(), 1U);
    EXPECT_EQ(groups.of_lane(1, 0), 8);
}

TEST(Groups, have_a_lane_for_each_member_of_the_largest) {
    const std::vector<Rank> ranks{0, 1, 2, 3, 4, 5};
    const Groups groups(ranks, {0, 0, 0, 0, 1, 1});
    ASSERT_EQ(groups.lanes(), 4U);
    std::vector<Rank> large, small;
    for (std::size_t lane = 0; lane < 4; ++lane) {
        large.push_back(groups.of_lane(0, lane));
        small.push_back(groups.of_lane(1, lane));
    }
    EXPECT_EQ(large, (std::vector<Rank>{0, 1, 2, 3}));
    EXPECT_EQ(small, (std::vector<Rank>{4, 4, 5, 5}));
}

}  // namespace
}  // namespace weightlift::plan
