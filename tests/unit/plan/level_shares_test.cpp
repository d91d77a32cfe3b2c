// Expectations are computed on paper: loads of water filling.
#include <algorithm>
#include <numeric>
#include <ostream>

#include <gtest/gtest.h>

#include "weightlift/plan/shares.hpp"

namespace weightlift::plan {
namespace {

/// Bytes of each group's holders, from its weights.
std::vector<std::vector<double>> shares_of(const std::vector<HolderGroup>& groups) {
    std::vector<std::vector<double>> shares;
    const auto weights = level_shares(groups);
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const double sum = std::accumulate(weights[g].begin(), weights[g].end(), 0.0);
        shares.emplace_back();
        for (const auto w : weights[g]) shares.back().push_back(groups[g].demand * w / sum);
    }
    return shares;
}

std::vector<double> loads_of(const std::vector<HolderGroup>& groups) {
    std::vector<double> load;
    const auto shares = shares_of(groups);
    for (std::size_t g = 0; g < groups.size(); ++g)
        for (std::size_t i = 0; i < groups[g].holders.size(); ++i) {
            const auto rank = static_cast<std::size_t>(groups[g].holders[i]);
            load.resize(std::max(load.size(), rank + 1), 0.0);
            load[rank] += shares[g][i];
        }
    return load;
}

struct Case {
    const char* name;
    std::vector<HolderGroup> groups;
    std::vector<std::vector<double>> shares;
};
std::ostream& operator<<(std::ostream& out, const Case& row) { return out << row.name; }

class LevelShares : public testing::TestWithParam<Case> {};

TEST_P(LevelShares, are_those_computed_by_hand) {
    const auto shares = shares_of(GetParam().groups);
    ASSERT_EQ(shares.size(), GetParam().shares.size());
    for (std::size_t g = 0; g < shares.size(); ++g) {
        ASSERT_EQ(shares[g].size(), GetParam().shares[g].size());
        for (std::size_t i = 0; i < shares[g].size(); ++i)
            EXPECT_NEAR(shares[g][i], GetParam().shares[g][i], 0.01 * GetParam().groups[g].demand)
                << "group " << g << " holder " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(
    ByHand, LevelShares,
    testing::Values(
        Case{"one_group", {{{0, 1, 2}, 90}}, {{30, 30, 30}}},
        Case{"disjoint_groups", {{{0, 1}, 90}, {{2, 3}, 10}}, {{45, 45}, {5, 5}}},
        // Rank 0 has 100 that only it can serve.
        Case{"one_holder_is_full_already", {{{0, 1}, 100}, {{0}, 100}}, {{0, 100}, {100}}},
        Case{"overlap_is_levelled", {{{0, 1}, 300}, {{0}, 100}}, {{100, 200}, {100}}},
        Case{"three_way_overlap",
             {{{0, 1, 2}, 240}, {{0}, 60}, {{0, 1}, 60}},
             // Level 120 each: rank 2 takes 120 of the large group, ranks 0 and 1 share the rest.
             {{30, 90, 120}, {60}, {30, 30}}},
        // A tied embedding on both ends of an uneven pipeline: stages {0, 1} and {2, 3}.
        Case{"tied_embedding_all_from_the_short_stage",
             {{{0, 1}, 160}, {{2, 3}, 240}, {{0, 1, 2, 3}, 80}},
             {{80, 80}, {120, 120}, {40, 40, 0, 0}}},
        Case{"tied_embedding_from_both_stages",
             {{{0, 1}, 160}, {{2, 3}, 240}, {{0, 1, 2, 3}, 240}},
             {{80, 80}, {120, 120}, {80, 80, 40, 40}}},
        Case{"chain_of_three",
             {{{0, 1}, 100}, {{1, 2}, 100}, {{2, 3}, 100}},
             {{75, 25}, {50, 50}, {25, 75}}},
        Case{"no_demand", {{{0, 1}, 0}, {{0}, 5}}, {{0, 0}, {5}}},
        Case{"terabytes", {{{0, 1}, 3e13}, {{0}, 1e13}}, {{1e13, 2e13}, {1e13}}}),
    testing::PrintToStringParamName());

TEST(LevelShares, of_the_three_way_overlap_are_level_at_every_rank) {
    const auto loads = loads_of({{{0, 1, 2}, 240}, {{0}, 60}, {{0, 1}, 60}});
    for (const double load : loads) EXPECT_NEAR(load, 120, 1);
}

TEST(LevelShares, are_exactly_one_where_equal_shares_are_level) {
    // Symmetric groups: equal slices to the byte, not to a rounding of 2^-20.
    const auto weights = level_shares(std::vector<HolderGroup>{
        {{0, 1, 2, 3}, 1e9}, {{0, 1}, 7e8}, {{2, 3}, 7e8}, {{4, 5, 6}, 3}});
    for (const auto& group : weights)
        for (const auto w : group) EXPECT_EQ(w, 1U);
}

TEST(LevelShares, leave_no_residue_with_a_holder_that_is_full) {
    // Level where rank 5 serves nothing of the second group; the iteration only comes close to 0.
    const auto weights =
        level_shares(std::vector<HolderGroup>{{{1, 3, 5}, 5978}, {{2, 4, 5, 6}, 5978}});
    EXPECT_EQ(weights[1][2], 0U);
    for (const std::size_t i : {0, 1, 3}) EXPECT_NEAR(weights[1][i], (1U << 20) / 3.0, 300);
}

TEST(LevelShares, of_a_long_chain_are_within_5_percent_of_level) {
    for (const Rank n : {5, 10, 20, 40}) {
        std::vector<HolderGroup> chain;
        for (Rank r = 0; r < n; ++r) chain.push_back({{r, r + 1}, 100});
        const auto loads = loads_of(chain);
        const double level = 100.0 * n / (n + 1);
        EXPECT_LE(*std::max_element(loads.begin(), loads.end()), 1.05 * level) << n << " groups";
    }
}

TEST(LevelShares, put_no_bytes_on_a_rank_outside_of_its_group) {
    const std::vector<HolderGroup> groups{{{2, 5}, 10}, {{5}, 20}};
    const auto loads = loads_of(groups);
    for (const std::size_t r : {0, 1, 3, 4}) EXPECT_EQ(loads[r], 0);
    EXPECT_NEAR(loads[2] + loads[5], 30, 1e-6);
}

TEST(LevelShares, of_nothing_are_nothing) { EXPECT_TRUE(level_shares({}).empty()); }

}  // namespace
}  // namespace weightlift::plan
