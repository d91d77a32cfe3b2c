#include "weightlift/plan/queue_pairs.hpp"

#include <gtest/gtest.h>

namespace weightlift::plan {
namespace {

/// Every one of `sources` writes to every one of `destinations`.
PlanStatistics all_to_all(std::uint32_t sources, std::uint32_t destinations) {
    PlanStatistics s;
    const std::size_t ranks = std::size_t{sources} + destinations;
    s.sent.assign(ranks, 0);
    s.fan_out.assign(ranks, 0);
    s.fan_in.assign(ranks, 0);
    for (std::uint32_t src = 0; src < sources; ++src) {
        s.fan_out[src] = destinations;
        for (std::uint32_t d = 0; d < destinations; ++d)
            s.pairs.push_back({static_cast<Rank>(src), static_cast<Rank>(sources + d), 1, 1, 1});
    }
    for (std::uint32_t d = 0; d < destinations; ++d) s.fan_in[sources + d] = sources;
    return s;
}

TEST(QueuePairs, are_several_for_few_peers_and_one_for_many) {
    EXPECT_EQ(default_queue_pairs(1), 4);
    EXPECT_EQ(default_queue_pairs(16), 4);
    EXPECT_EQ(default_queue_pairs(17), 2);
    EXPECT_EQ(default_queue_pairs(64), 2);
    EXPECT_EQ(default_queue_pairs(65), 1);
}

TEST(QueuePairs, are_counted_on_the_busiest_nic) {
    EXPECT_EQ(count_queue_pairs(all_to_all(1, 2)).pairs, 8U);
    // 100 destinations take one each, also where a destination has one source only.
    const QueuePairs many = count_queue_pairs(all_to_all(1, 100));
    EXPECT_EQ(many.pairs, 100U);
    EXPECT_EQ(many.rank, 0);
    EXPECT_EQ(count_queue_pairs(all_to_all(256, 256)).pairs, 256U);
    EXPECT_EQ(count_queue_pairs(all_to_all(3, 1)).rank, 3);
}

TEST(QueuePairs, take_as_many_as_were_asked_for) {
    EXPECT_EQ(count_queue_pairs(all_to_all(2, 10), 3).pairs, 30U);
}

TEST(QueuePairs, cost_memory_where_they_send) {
    // 256 requests of 512 bytes and completions of 64, and 18 receives' completions.
    EXPECT_EQ(count_queue_pairs(all_to_all(1, 1), 1).bytes, 256U * (512 + 64) + 18 * 64);
    EXPECT_EQ(count_queue_pairs(all_to_all(1, 1), 1).rank, 0);
}

TEST(QueuePairs, of_an_empty_plan_are_none) { EXPECT_EQ(count_queue_pairs({}).pairs, 0U); }

}  // namespace
}  // namespace weightlift::plan
