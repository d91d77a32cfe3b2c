#include "weightlift/plan/statistics.hpp"

#include <numeric>

#include <gtest/gtest.h>

#include "support/hand_layouts.hpp"

namespace weightlift::plan {
namespace {

using layout::Side;
using test::hand_layout;
using test::hand_model;
using test::matrix;

/// One tensor of 6 rows of 8 bf16. Trainers 0 and 1 hold its left and right half; rollout 2 the
/// whole, rollout 3 the first row of the left half.
TEST(Statistics, are_those_counted_by_hand) {
    const auto model = hand_model({matrix("t", 6, 8)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 2,
                    {{"l", "t", {{0, 6}, {0, 4}}, {0}}, {"r", "t", {{0, 6}, {4, 8}}, {1}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 2,
                    {{"w", "t", {{0, 6}, {0, 8}}, {0}}, {"p", "t", {{0, 1}, {0, 4}}, {1}}}, {0, 1});
    const Planner planner(model, trainer, rollout);
    const PlanStatistics s = gather_statistics(planner);

    EXPECT_EQ(s.bytes, 96U + 8U);
    EXPECT_EQ(s.transfers, 3U);
    EXPECT_EQ(s.copies, 3U);
    EXPECT_EQ(s.runs, 6U + 6U + 1U);  // strided rows stay runs of 8 bytes
    EXPECT_EQ(s.sent, (std::vector<Bytes>{56, 48, 0, 0}));
    EXPECT_EQ(s.received, (std::vector<Bytes>{0, 0, 96, 8}));
    EXPECT_EQ(s.fan_out, (std::vector<std::uint32_t>{2, 1, 0, 0}));
    EXPECT_EQ(s.fan_in, (std::vector<std::uint32_t>{0, 0, 2, 1}));
    EXPECT_EQ(s.runs_sent, (std::vector<std::uint64_t>{7, 6, 0, 0}));
    ASSERT_EQ(s.pairs.size(), 3U);
    struct Pair {
        Rank src, dst;
        Bytes bytes;
        std::uint64_t runs;
    };
    const Pair expected[] = {{0, 2, 48, 6}, {1, 2, 48, 6}, {0, 3, 8, 1}};
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(s.pairs[i].src, expected[i].src);
        EXPECT_EQ(s.pairs[i].dst, expected[i].dst);
        EXPECT_EQ(s.pairs[i].bytes, expected[i].bytes);
        EXPECT_EQ(s.pairs[i].copies, 1U);
        EXPECT_EQ(s.pairs[i].runs, expected[i].runs);
    }
    EXPECT_EQ(s.sizes.runs[3], 13U);  // [8, 16) bytes
    EXPECT_EQ(s.sizes.bytes[3], 104U);
    EXPECT_EQ(std::accumulate(s.sizes.runs.begin(), s.sizes.runs.end(), 0ULL), 13U);
    EXPECT_EQ(s.busiest_sender(), 0);
    EXPECT_EQ(s.busiest_receiver(), 2);
    EXPECT_EQ(s.port_bytes(), 96U);
    EXPECT_EQ(s.digest,
              planner.digest(planner.received_by(2)) + planner.digest(planner.received_by(3)));
}

TEST(Statistics, count_copies_after_merging) {
    // Two halves of one shard on both sides: one contiguous copy of the whole.
    const auto model = hand_model({matrix("a", 4, 32), matrix("b", 4, 32)});
    const std::vector<test::HandShard> shards{{"a", "a", {{0, 4}, {0, 32}}, {0}},
                                              {"b", "b", {{0, 4}, {0, 32}}, {0}}};
    const Layout trainer = hand_layout(Side::Trainer, model, 1, shards);
    const Layout rollout = hand_layout(Side::Rollout, model, 1, shards);
    const PlanStatistics s = gather_statistics(Planner(model, trainer, rollout));
    EXPECT_EQ(s.transfers, 2U);
    EXPECT_EQ(s.copies, 1U);
    EXPECT_EQ(s.runs, 1U);
    EXPECT_EQ(s.sizes.runs[9], 1U);  // 512 bytes
}

TEST(Statistics, ties_go_to_the_lowest_rank) {
    PlanStatistics s;
    EXPECT_EQ(s.port_bytes(), 0U);
    s.sent = {5, 7, 7, 0};
    s.received = {0, 0, 9, 9};
    EXPECT_EQ(s.busiest_sender(), 1);
    EXPECT_EQ(s.busiest_receiver(), 2);
    EXPECT_EQ(s.port_bytes(), 9U);
}

}  // namespace
}  // namespace weightlift::plan
