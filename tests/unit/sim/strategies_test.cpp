#include "weightlift/sim/strategies.hpp"

#include <map>

#include <gtest/gtest.h>

#include "support/hand_layouts.hpp"

namespace weightlift::sim {
namespace {

using layout::Side;
using test::hand_layout;
using test::hand_model;
using test::matrix;

/// A [8, 4] matrix of 64 bytes, cut in two by rows over two trainers; two engines of one rank.
struct TwoToTwo {
    model::ModelSpec model = hand_model({matrix("w", 8, 4)});
    layout::Layout trainer =
        hand_layout(Side::Trainer, model, 2,
                    {{"w", "w", {{0, 4}, {0, 4}}, {0}}, {"w", "w", {{4, 8}, {0, 4}}, {1}}});
    layout::Layout rollout =
        hand_layout(Side::Rollout, model, 2, {{"w", "w", {{0, 8}, {0, 4}}, {0, 1}}}, {0, 1});
    plan::Planner planner{model, trainer, rollout};
};

/// Nodes of one rank with a port of 8 bytes/s.
Fabric slow_ports(int nvlink_domain = 0) {
    Cluster c;
    c.name = "slow";
    c.ranks_per_node = 1;
    c.ports_per_node = 1;
    c.port_rate = 8;
    c.nvlink_domain_ranks = nvlink_domain;
    c.nvlink_rate = 80;
    return Fabric(c, 2, 4);
}

std::map<std::pair<Rank, Rank>, Bytes> bytes_of(const Step& step) {
    std::map<std::pair<Rank, Rank>, Bytes> bytes;
    for (const Flow& flow : step.flows) bytes[{flow.src, flow.dst}] += flow.bytes;
    return bytes;
}
using Pairs = std::map<std::pair<Rank, Rank>, Bytes>;

TEST(DirectFlows, are_the_pairs_of_the_plan) {
    const TwoToTwo scene;
    const auto direct = direct_flows(plan::gather_statistics(scene.planner), Rows::Direct);
    ASSERT_EQ(direct.steps.size(), 1U);
    EXPECT_EQ(bytes_of(direct.steps[0]),
              (Pairs{{{0, 2}, 32}, {{1, 2}, 32}, {{0, 3}, 32}, {{1, 3}, 32}}));
    EXPECT_DOUBLE_EQ(predict_strategy(direct, slow_ports(), Order::Rotated).seconds, 8);
}

TEST(DirectFlows, count_a_message_a_row_or_a_copy) {
    plan::PlanStatistics statistics;
    statistics.pairs.push_back({0, 1, 1000, 3, 70});
    EXPECT_EQ(direct_flows(statistics, Rows::Direct).steps[0].flows[0].messages, 70U);
    EXPECT_EQ(direct_flows(statistics, Rows::Packed).steps[0].flows[0].messages, 3U);
}

TEST(ReplicaFlows, gather_what_the_source_lacks_and_write_whole_shards) {
    // Source 0 serves engine 0, source 1 engine 1; each lacks half.
    const TwoToTwo scene;
    const auto replica = replica_flows(scene.planner, 1, Rows::Direct);
    ASSERT_EQ(replica.steps.size(), 2U);
    EXPECT_EQ(bytes_of(replica.steps[0]), (Pairs{{{1, 0}, 32}, {{0, 1}, 32}}));
    EXPECT_EQ(bytes_of(replica.steps[1]), (Pairs{{{0, 2}, 64}, {{1, 3}, 64}}));
    const auto predicted = predict_strategy(replica, slow_ports(), Order::Rotated);
    EXPECT_DOUBLE_EQ(predicted.seconds, 4 + 8);
    EXPECT_DOUBLE_EQ(predicted.bound.seconds(), 12);
    EXPECT_EQ(predicted.bytes, 192U);
}

TEST(ReplicaFlows, of_stages_send_each_its_own) {
    // As two stages of one rank: nobody to gather from, and both write to both.
    const TwoToTwo scene;
    const auto replica = replica_flows(scene.planner, 2, Rows::Direct);
    EXPECT_TRUE(replica.steps[0].flows.empty());
    EXPECT_EQ(bytes_of(replica.steps[1]),
              (Pairs{{{0, 2}, 32}, {{1, 2}, 32}, {{0, 3}, 32}, {{1, 3}, 32}}));
}

TEST(BroadcastFlows, gather_to_the_first_rank_and_go_down_the_chain) {
    const TwoToTwo scene;
    const auto broadcast = broadcast_flows(scene.planner, slow_ports(), 1);
    EXPECT_EQ(bytes_of(broadcast.steps[0]), (Pairs{{{1, 0}, 32}}));
    EXPECT_EQ(bytes_of(broadcast.steps[1]), (Pairs{{{0, 2}, 64}, {{2, 3}, 64}}));
}

TEST(BroadcastFlows, enter_an_nvlink_domain_once) {
    const TwoToTwo scene;
    const auto broadcast = broadcast_flows(scene.planner, slow_ports(2), 1);
    EXPECT_EQ(bytes_of(broadcast.steps[1]),
              (Pairs{{{0, 2}, 32}, {{0, 3}, 32}, {{2, 3}, 32}, {{3, 2}, 32}}));
}

TEST(RelayFlows, leave_the_trainers_once_and_travel_on_between_engines) {
    const TwoToTwo scene;
    const auto relay = relay_flows(scene.planner, slow_ports(), Rows::Direct);
    ASSERT_TRUE(relay.is_pipelined);
    ASSERT_EQ(relay.steps.size(), 3U);
    EXPECT_EQ(bytes_of(relay.steps[0]),
              (Pairs{{{0, 2}, 16}, {{1, 2}, 16}, {{0, 3}, 16}, {{1, 3}, 16}}));
    EXPECT_EQ(bytes_of(relay.steps[1]), (Pairs{{{2, 3}, 32}, {{3, 2}, 32}}));
    EXPECT_TRUE(relay.steps[2].flows.empty());
}

TEST(RelayFlows, fan_out_inside_an_nvlink_domain) {
    const TwoToTwo scene;
    const auto relay = relay_flows(scene.planner, slow_ports(2), Rows::Direct);
    EXPECT_EQ(bytes_of(relay.steps[0]),
              (Pairs{{{0, 2}, 16}, {{1, 2}, 16}, {{0, 3}, 16}, {{1, 3}, 16}}));
    EXPECT_TRUE(relay.steps[1].flows.empty());
    EXPECT_EQ(bytes_of(relay.steps[2]), (Pairs{{{2, 3}, 32}, {{3, 2}, 32}}));
}

TEST(PredictStrategy, runs_steps_in_a_row_or_at_once) {
    StrategyFlows two{"two", {{"a", {{0, 1, 8, 1}}}, {"b", {{2, 3, 16, 1}}}}, false};
    EXPECT_DOUBLE_EQ(predict_strategy(two, slow_ports(), Order::Rotated).seconds, 3);
    two.is_pipelined = true;
    const auto at_once = predict_strategy(two, slow_ports(), Order::Rotated);
    EXPECT_DOUBLE_EQ(at_once.seconds, 2);
    ASSERT_EQ(at_once.steps.size(), 1U);
    EXPECT_EQ(at_once.steps[0].name, "a + b");
}

}  // namespace
}  // namespace weightlift::sim
