// Which MPI rank plays which plan rank.
#include <ostream>

#include <gtest/gtest.h>

#include "weightlift/session/topology.hpp"

#include "unit/layout/refused.hpp"

namespace weightlift::session {
namespace {

using layout::Side;
constexpr Side T = Side::Trainer, R = Side::Rollout;

/// mpi_rank and plan_rank are inverse to each other, and trainers come first.
void expect_consistent(const Roles& roles) {
    ASSERT_EQ(roles.mpi_rank.size(), roles.plan_rank.size());
    for (std::size_t p = 0; p < roles.mpi_rank.size(); ++p) {
        const int mpi = roles.mpi_rank[p];
        EXPECT_EQ(roles.plan_rank[static_cast<std::size_t>(mpi)], static_cast<Rank>(p));
        EXPECT_EQ(roles.side(mpi), static_cast<Rank>(p) < roles.trainers ? T : R);
    }
}

TEST(DefaultRoles, put_trainers_first) {
    const Roles roles = default_roles(2, 3);
    EXPECT_EQ(roles.trainers, 2);
    EXPECT_EQ(roles.mpi_rank, (std::vector<int>{0, 1, 2, 3, 4}));
    expect_consistent(roles);
}

TEST(RolesFrom, number_each_side_in_rank_order) {
    const Roles roles = roles_from({R, T, R, T, R}, 2, 3);
    EXPECT_EQ(roles.mpi_rank, (std::vector<int>{1, 3, 0, 2, 4}));
    EXPECT_EQ(roles.plan_rank, (std::vector<Rank>{2, 0, 3, 1, 4}));
    expect_consistent(roles);
}

TEST(RolesFrom, refuse_other_numbers_than_the_layouts_need) {
    EXPECT_REFUSAL(roles_from({T, R, R}, 2, 1).trainers,
                   "1 ranks have the role trainer, but the trainer layout needs 2");
    EXPECT_REFUSAL(roles_from({T, T, R}, 2, 2).trainers,
                   "1 ranks have the role rollout, but the rollout layout needs 2");
    EXPECT_REFUSAL(roles_from({}, 1, 1).trainers, "0 ranks have the role trainer");
}

struct Parsed {
    const char* text;
    Rank trainers, rollouts;
    std::vector<int> mpi_rank;
};

TEST(ParseRoles, take_the_listed_order_as_plan_order) {
    for (const Parsed& row : {
             Parsed{"trainer:0-1,rollout:2-4", 2, 3, {0, 1, 2, 3, 4}},
             {"rollout:0-2,trainer:3-4", 2, 3, {3, 4, 0, 1, 2}},
             {"trainer:4,0,rollout:3,1-2", 2, 3, {4, 0, 3, 1, 2}},
             {"trainer:1,rollout:0,2,trainer:3", 2, 2, {1, 3, 0, 2}},
             {"trainer:0-0,rollout:1", 1, 1, {0, 1}},
         }) {
        const Roles roles = parse_roles(row.text, row.trainers, row.rollouts);
        EXPECT_EQ(roles.mpi_rank, row.mpi_rank) << row.text;
        EXPECT_EQ(roles.trainers, row.trainers);
        expect_consistent(roles);
    }
}

struct Refused {
    const char* text;
    const char* message;
};
std::ostream& operator<<(std::ostream& out, const Refused& row) {
    return out << "'" << row.text << "'";
}

class ParseRolesRefuse : public testing::TestWithParam<Refused> {};

TEST_P(ParseRolesRefuse, naming_the_range_and_the_rule) {
    EXPECT_REFUSAL(parse_roles(GetParam().text, 2, 3).trainers, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ParseRolesRefuse,
    testing::Values(Refused{"", "0 ranks have the role trainer"},
                    Refused{"0-1,rollout:2-4", "must begin with 'trainer:' or 'rollout:'"},
                    Refused{"trainers:0-1", "'trainers' is not a role (trainer, rollout)"},
                    Refused{":0-1", "'' is not a role"},
                    Refused{"trainer:0-1,rollout:", "'' is not a rank or a range"},
                    Refused{"trainer:0-1,,rollout:2-4", "'' is not a rank or a range"},
                    Refused{"trainer:0-1,rollout:2-4,", "'' is not a rank or a range"},
                    Refused{"trainer:1-0,rollout:2-4", "'1-0' is not a rank or a range"},
                    Refused{"trainer:0-,rollout:2-4", "'0-' is not a rank or a range"},
                    Refused{"trainer:-1,rollout:2-4", "'-1' is not a rank or a range"},
                    Refused{"trainer:0 1,rollout:2-4", "'0 1' is not a rank or a range"},
                    Refused{"trainer:0x1,rollout:2-4", "'0x1' is not a rank or a range"},
                    Refused{"trainer:99999999999,rollout:2-4", "is not a rank or a range"},
                    Refused{"trainer:0-1,rollout:2-5",
                            "rank 5 does not exist, the layouts need ranks 0 to 4"},
                    Refused{"trainer:0-1000000000,rollout:2", "rank 1000000000 does not exist"},
                    Refused{"trainer:0-1,rollout:1-3", "rank 1 is named twice"},
                    Refused{"trainer:0-2,rollout:3-4",
                            "3 ranks have the role trainer, but the trainer layout needs 2"},
                    Refused{"trainer:0-1,rollout:2-3",
                            "2 ranks have the role rollout, but the rollout layout needs 3"}));

TEST(Topology, labels_ranks_by_host) {
    Topology topology;
    topology.hosts = {"n041", "n042"};
    EXPECT_EQ(topology.label(1), "rank 1 (host n042)");
}

}  // namespace
}  // namespace weightlift::session
