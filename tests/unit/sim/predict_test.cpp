#include "weightlift/sim/predict.hpp"

#include <gtest/gtest.h>

namespace weightlift::sim {
namespace {

plan::PlanStatistics traffic(std::vector<plan::PairTraffic> pairs) {
    plan::PlanStatistics s;
    for (const auto& pair : pairs) s.bytes += pair.bytes;
    s.pairs = std::move(pairs);
    return s;
}

/// Nodes of 2 ranks with a port each of 10 bytes/s.
Cluster two_by_two() {
    Cluster c;
    c.name = "two-by-two";
    c.ranks_per_node = 2;
    c.ports_per_node = 2;
    c.port_rate = 10;
    return c;
}

// Trainers 0, 1 on node 0, rollouts 2, 3 on node 1.
TEST(Predict, is_the_slowest_port_of_two_nodes) {
    const auto s = traffic({{0, 2, 100, 1, 1}, {1, 2, 50, 1, 5}, {0, 3, 30, 1, 2}});
    const Prediction p = predict(s, 2, two_by_two(), 10);
    EXPECT_DOUBLE_EQ(p.bandwidth_seconds, 15);  // rank 2 receives 150 bytes
    EXPECT_EQ(p.message_seconds, 0);
    EXPECT_DOUBLE_EQ(p.seconds(), 15);
    EXPECT_EQ(p.nvlink_bytes, 0U);
    EXPECT_EQ(p.queue_pairs_per_port, 2U);
    struct Row {
        int node, index;
        bool is_send;
        Bytes bytes;
        std::uint64_t messages;
        double seconds;
    };
    const Row expected[] = {{1, 0, false, 150, 6, 15},
                            {0, 0, true, 130, 3, 13},
                            {0, 1, true, 50, 5, 5},
                            {1, 1, false, 30, 2, 3}};
    ASSERT_EQ(p.busiest.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(p.busiest[i].kind, PortKind::Nic);
        EXPECT_EQ(p.busiest[i].node, expected[i].node) << i;
        EXPECT_EQ(p.busiest[i].index, expected[i].index) << i;
        EXPECT_EQ(p.busiest[i].is_send, expected[i].is_send) << i;
        EXPECT_EQ(p.busiest[i].bytes, expected[i].bytes) << i;
        EXPECT_EQ(p.busiest[i].messages, expected[i].messages) << i;
        EXPECT_DOUBLE_EQ(p.busiest[i].seconds, expected[i].seconds) << i;
    }
    EXPECT_EQ(predict(s, 2, two_by_two(), 1).busiest.size(), 1U);
}

TEST(Predict, does_not_add_the_two_directions_of_a_port) {
    // Full duplex: a rank that only sends and one that only receives have half a port idle.
    const Prediction p = predict(traffic({{0, 1, 100, 1, 1}}), 1, two_by_two());
    EXPECT_DOUBLE_EQ(p.seconds(), 10);
}

TEST(Predict, adds_ranks_that_share_a_port) {
    Cluster c = two_by_two();
    c.ports_per_node = 1;
    const auto s = traffic({{0, 2, 100, 1, 1}, {1, 3, 50, 1, 1}});
    const Prediction p = predict(s, 2, c);
    EXPECT_DOUBLE_EQ(p.seconds(), 15);
    EXPECT_EQ(p.queue_pairs_per_port, 2U);
}

TEST(Predict, spreads_ranks_over_ports_in_blocks) {
    // 4 ranks over 2 ports: ranks 0 and 1 have port 0, ranks 2 and 3 port 1.
    Cluster c = two_by_two();
    c.ranks_per_node = 4;
    const auto s =
        traffic({{0, 4, 10, 1, 1}, {1, 5, 10, 1, 1}, {2, 6, 10, 1, 1}, {3, 7, 10, 1, 1}});
    const Prediction p = predict(s, 4, c, 10);
    ASSERT_EQ(p.busiest.size(), 4U);
    for (const Port& port : p.busiest) EXPECT_EQ(port.bytes, 20U);
}

TEST(Predict, gives_each_port_to_one_rank_where_ports_are_many) {
    Cluster c = two_by_two();
    c.ports_per_node = 8;
    const Prediction p = predict(traffic({{0, 2, 10, 1, 1}, {1, 3, 10, 1, 1}}), 2, c, 10);
    ASSERT_EQ(p.busiest.size(), 4U);
    for (const Port& port : p.busiest)
        EXPECT_TRUE(port.index == 0 || port.index == 4) << port.index;
}

TEST(Predict, places_rollouts_from_the_next_whole_node_on) {
    // 3 trainers on nodes of 2: node 1 is half empty, rollouts 3 and 4 share node 2.
    Cluster c = two_by_two();
    c.ports_per_node = 1;
    const auto s = traffic({{0, 3, 10, 1, 1}, {2, 4, 10, 1, 1}});
    const Prediction p = predict(s, 3, c, 10);
    ASSERT_FALSE(p.busiest.empty());
    EXPECT_EQ(p.busiest[0].node, 2);
    EXPECT_EQ(p.busiest[0].bytes, 20U);
    EXPECT_EQ(p.busiest[0].is_send, false);
}

TEST(Predict, is_the_message_rate_where_messages_are_small) {
    Cluster c = two_by_two();
    c.port_message_rate = 2;
    const auto s = traffic({{0, 2, 100, 1, 1}, {1, 3, 50, 7, 80}});
    const Prediction p = predict(s, 2, c);
    EXPECT_DOUBLE_EQ(p.bandwidth_seconds, 10);
    EXPECT_DOUBLE_EQ(p.message_seconds, 40);
    EXPECT_DOUBLE_EQ(p.seconds(), 40);
    EXPECT_EQ(p.busiest[0].bytes, 50U);
    EXPECT_DOUBLE_EQ(p.busiest[0].seconds, 40);
}

TEST(Predict, moves_pairs_inside_an_nvlink_domain_off_the_ports) {
    // Domains of 4 ranks: trainers 0, 1 and rollouts 2, 3 are together, rollouts 4, 5 apart.
    Cluster c = two_by_two();
    c.nvlink_domain_ranks = 4;
    c.nvlink_rate = 100;
    c.port_message_rate = 1000;
    const auto s = traffic({{0, 2, 1000, 1, 50'000}, {0, 4, 60, 1, 1}, {1, 5, 20, 1, 1}});
    const Prediction p = predict(s, 2, c, 10);
    EXPECT_EQ(p.nvlink_bytes, 1000U);
    EXPECT_DOUBLE_EQ(p.bandwidth_seconds, 10);        // 1000 bytes by NVLink
    EXPECT_DOUBLE_EQ(p.message_seconds, 1.0 / 1000);  // no message rate there
    EXPECT_EQ(p.queue_pairs_per_port, 1U);
    ASSERT_GE(p.busiest.size(), 3U);
    EXPECT_EQ(p.busiest[0].kind, PortKind::NvLink);
    EXPECT_EQ(p.busiest[1].kind, PortKind::NvLink);
    EXPECT_EQ(p.busiest[2].kind, PortKind::Nic);
    EXPECT_DOUBLE_EQ(p.busiest[2].seconds, 6);
}

TEST(Predict, names_nvlink_ends_by_plan_rank) {
    // One trainer leaves the rest of its node empty; rollout 1 is then in slot 2.
    Cluster c = two_by_two();
    c.nvlink_domain_ranks = 4;
    c.nvlink_rate = 100;
    const Prediction p = predict(traffic({{0, 1, 1000, 1, 1}}), 1, c, 10);
    ASSERT_EQ(p.busiest.size(), 2U);
    for (const Port& port : p.busiest) EXPECT_EQ(port.index, port.is_send ? 0 : 1);
}

TEST(Predict, counts_what_crosses_between_leaf_switches) {
    // Three leaves of one node. Uplinks of 20 / 4 = 5 bytes/s.
    Cluster c = two_by_two();
    c.leaf_nodes = 1;
    c.oversubscription = 4;
    const Prediction p = predict(traffic({{0, 2, 30, 1, 1}, {1, 4, 30, 1, 1}}), 2, c, 10);
    EXPECT_DOUBLE_EQ(p.seconds(), 12);
    ASSERT_FALSE(p.busiest.empty());
    EXPECT_EQ(to_string(p.busiest[0]), "uplink of leaf 0");
    EXPECT_EQ(p.busiest[0].bytes, 60U);
    c.leaf_nodes = 3;
    EXPECT_DOUBLE_EQ(predict(traffic({{0, 2, 30, 1, 1}, {1, 4, 30, 1, 1}}), 2, c).seconds(), 3);
}

TEST(Predict, takes_memory_instead_of_ports_inside_a_node_where_it_has_a_rate) {
    Cluster c = two_by_two();
    c.ranks_per_node = 4;
    c.placement = Placement::Packed;
    c.memory_rate = 2;
    const Prediction p = predict(traffic({{0, 2, 10, 1, 1}, {1, 3, 10, 1, 1}}), 2, c, 10);
    EXPECT_DOUBLE_EQ(p.seconds(), 10);
    ASSERT_EQ(p.busiest.size(), 1U);
    EXPECT_EQ(to_string(p.busiest[0]), "memory of node 0");
}

TEST(Predict, holds_a_rank_to_its_own_rate_of_copying_inside_a_node) {
    Cluster c = two_by_two();
    c.ranks_per_node = 4;
    c.placement = Placement::Packed;
    c.memory_rate = 3;
    c.copy_rate = 2;
    const Prediction one = predict(traffic({{0, 2, 10, 1, 1}, {0, 3, 10, 1, 1}}), 2, c, 10);
    EXPECT_DOUBLE_EQ(one.seconds(), 10);
    EXPECT_EQ(to_string(one.busiest[0]), "copying of rank 0");
    const Prediction two = predict(traffic({{0, 2, 15, 1, 1}, {1, 3, 15, 1, 1}}), 2, c, 10);
    EXPECT_DOUBLE_EQ(two.seconds(), 10);
    EXPECT_EQ(to_string(two.busiest[0]), "memory of node 0");
}

TEST(Predict, of_no_traffic_is_no_time) {
    const Prediction p = predict({}, 2, two_by_two());
    EXPECT_EQ(p.seconds(), 0);
    EXPECT_TRUE(p.busiest.empty());
}

}  // namespace
}  // namespace weightlift::sim
