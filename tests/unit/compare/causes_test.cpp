#include "weightlift/compare/causes.hpp"

#include <gtest/gtest.h>

#include "launches.hpp"

namespace weightlift::compare {
namespace {

using made_up::launch;

std::vector<const Launch*> pointers(const std::vector<Launch>& launches) {
    std::vector<const Launch*> list;
    for (const Launch& one : launches) list.push_back(&one);
    return list;
}

std::uint64_t& phase(Launch& one, std::size_t rank, record::Phase which) {
    return one.phases[rank][static_cast<std::size_t>(which)];
}

TEST(Causes, waiting_for_it_is_no_cause_beside_own_work) {
    const std::vector<Launch> base{launch("a", 0.1, 12)};
    std::vector<Launch> next{launch("b", 1.1, 12)};
    phase(next[0], 2, record::Phase::Wire) += made_up::ns(0.5);  // waits even longer
    const auto causes = find_causes(pointers(base), pointers(next), 1e6);
    ASSERT_EQ(causes.size(), 1U);
    EXPECT_EQ(causes[0].rank, 0);
    EXPECT_EQ(causes[0].phase, record::Phase::Post);
    EXPECT_FALSE(causes[0].is_waiting);
}

TEST(Causes, waiting_is_named_where_nobody_did_more) {
    const std::vector<Launch> base{launch("a", 0.1, 12)};
    std::vector<Launch> next{launch("b", 0.1, 12)};
    phase(next[0], 1, record::Phase::Wire) += made_up::ns(3);
    const auto causes = find_causes(pointers(base), pointers(next), 3e6);
    ASSERT_EQ(causes.size(), 1U);
    EXPECT_EQ(causes[0].rank, 1);
    EXPECT_TRUE(causes[0].is_waiting);
}

TEST(Causes, small_change_of_own_work_does_not_hide_what_changed) {
    const std::vector<Launch> base{launch("a", 0.1, 12)};
    std::vector<Launch> next{launch("b", 0.2, 12)};
    phase(next[0], 1, record::Phase::Wire) += made_up::ns(3);
    const auto causes = find_causes(pointers(base), pointers(next), 3e6);
    ASSERT_FALSE(causes.empty());
    EXPECT_EQ(causes[0].rank, 1);
}

TEST(Causes, of_becoming_faster_are_what_shrank) {
    const std::vector<Launch> base{launch("a", 2, 12)};
    const std::vector<Launch> next{launch("b", 0.1, 12.1)};
    const auto causes = find_causes(pointers(base), pointers(next), -1.8e6);
    ASSERT_FALSE(causes.empty());
    EXPECT_EQ(causes[0].phase, record::Phase::Post);
}

TEST(Causes, nothing_in_that_direction_names_nothing) {
    const std::vector<Launch> one{launch("a", 2, 12)};
    EXPECT_TRUE(find_causes(pointers(one), pointers(one), 1e6).empty());
    EXPECT_TRUE(find_causes({}, pointers(one), 1e6).empty());
}

TEST(InCommon, host_or_nic_that_only_the_slow_ranks_share) {
    std::vector<record::RankInfo> ranks(4);
    for (std::int32_t r = 0; r < 4; ++r) {
        auto& rank = ranks[static_cast<std::size_t>(r)];
        rank.rank = r;
        rank.host = r < 2 ? "n0" : "n7";
        rank.nic = r % 2 == 0 ? "mlx5_0" : "mlx5_1";
    }
    const auto of = [](std::initializer_list<std::int32_t> list) {
        std::vector<Cause> causes;
        for (const std::int32_t rank : list) causes.emplace_back().rank = rank;
        return causes;
    };
    EXPECT_EQ(in_common(of({2, 3}), ranks), "host n7");
    EXPECT_EQ(in_common(of({1, 3}), ranks), "NIC mlx5_1");
    EXPECT_EQ(in_common(of({0, 3}), ranks), "");
    EXPECT_EQ(in_common(of({2}), ranks), "");
    EXPECT_EQ(in_common(of({0, 1, 2, 3}), ranks), "");
}

}  // namespace
}  // namespace weightlift::compare
