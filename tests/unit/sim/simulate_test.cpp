#include "weightlift/sim/simulate.hpp"

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "weightlift/plan/copy.hpp"

namespace weightlift::sim {
namespace {

/// Nodes of 1 rank with a port of 10 bytes/s.
Cluster ports_of_ten() {
    Cluster c;
    c.ranks_per_node = 1;
    c.ports_per_node = 1;
    c.port_rate = 10;
    return c;
}

Simulation run(const std::vector<Flow>& flows, const Cluster& cluster, Rank trainers, Rank ranks,
               Order order = Order::Rotated) {
    return simulate(flows, Fabric(cluster, trainers, ranks), order);
}

TEST(Simulate, shares_a_port_and_frees_it) {
    // Rank 0 sends 5 + 5 until 2 has its 50 bytes at t = 10; then 100 more at 10/s.
    const Simulation s = run({{0, 2, 50, 1}, {0, 3, 150, 1}}, ports_of_ten(), 2, 4);
    EXPECT_DOUBLE_EQ(s.flow_seconds[0], 10);
    EXPECT_DOUBLE_EQ(s.flow_seconds[1], 20);
    EXPECT_DOUBLE_EQ(s.seconds, 20);
}

TEST(Simulate, gives_what_a_full_receiver_leaves_to_another) {
    // 2 receives 5 from each; 0 has 5 left for 3 until t = 4, then 1 goes on alone.
    const Simulation s = run({{0, 2, 20, 1}, {1, 2, 60, 1}, {0, 3, 20, 1}}, ports_of_ten(), 2, 4);
    EXPECT_DOUBLE_EQ(s.flow_seconds[0], 4);
    EXPECT_DOUBLE_EQ(s.flow_seconds[2], 4);
    EXPECT_DOUBLE_EQ(s.flow_seconds[1], 8);
}

TEST(Simulate, of_the_plan_order_serves_one_destination_after_the_other) {
    // Both write to 2 first, at 5 each, until t = 4; then both to 3 until t = 8.
    const std::vector<Flow> flows{{0, 3, 20, 1}, {1, 3, 20, 1}, {0, 2, 20, 1}, {1, 2, 20, 1}};
    const Simulation plan = run(flows, ports_of_ten(), 2, 4, Order::Plan);
    EXPECT_DOUBLE_EQ(plan.flow_seconds[2], 4);
    EXPECT_DOUBLE_EQ(plan.seconds, 8);
    EXPECT_DOUBLE_EQ(plan.most_writers, 2);
    const Simulation rotated = run(flows, ports_of_ten(), 2, 4);
    EXPECT_DOUBLE_EQ(rotated.seconds, 4);
    EXPECT_DOUBLE_EQ(rotated.most_writers, 1);
}

TEST(Simulate, lowers_a_port_with_more_writers_than_it_bears) {
    Cluster c = ports_of_ten();
    c.incast_writers = 2;
    c.incast_rate_share = 0.5;
    // 4 writers: 0.5 + 0.5 * 2/4 of 10 bytes/s.
    std::vector<Flow> flows;
    for (Rank src = 0; src < 4; ++src) flows.push_back({src, 4, 15, 1});
    EXPECT_DOUBLE_EQ(run(flows, c, 4, 5).seconds, 8);
    flows.resize(2);
    EXPECT_DOUBLE_EQ(run(flows, c, 4, 5).seconds, 3);
}

TEST(Simulate, is_bound_by_the_message_rate_where_messages_are_small) {
    Cluster c = ports_of_ten();
    c.port_message_rate = 2;
    EXPECT_DOUBLE_EQ(run({{0, 1, 10, 10}}, c, 1, 2).seconds, 5);
}

TEST(Simulate, adds_the_latency_once) {
    Cluster c = ports_of_ten();
    c.latency = 0.5;
    EXPECT_DOUBLE_EQ(run({{0, 1, 10, 1}}, c, 1, 2).seconds, 1.5);
    EXPECT_EQ(run({}, c, 1, 2).seconds, 0);
}

TEST(Simulate, of_what_stays_in_a_rank_takes_no_time) {
    EXPECT_EQ(run({{0, 0, 10, 1}, {0, 1, 0, 0}}, ports_of_ten(), 1, 2).seconds, 0);
}

std::vector<Flow> random_flows(unsigned seed, Rank trainers, Rank rollouts) {
    std::mt19937 engine(seed);
    std::vector<Flow> flows;
    for (Rank s = 0; s < trainers; ++s)
        for (Rank d = trainers; d < trainers + rollouts; ++d)
            if (engine() % 3 != 0) flows.push_back({s, d, 1 + engine() % 1000, 1 + engine() % 5});
    return flows;
}

/// Leaves, NVLink, messages and incast all at once.
Cluster everything() {
    Cluster c;
    c.ranks_per_node = 4;
    c.ports_per_node = 2;
    c.placement = Placement::Packed;
    c.port_rate = 10;
    c.port_message_rate = 0.1;
    c.nvlink_domain_ranks = 4;
    c.nvlink_rate = 50;
    c.leaf_nodes = 1;
    c.oversubscription = 2;
    c.incast_writers = 1;
    c.incast_rate_share = 0.7;
    return c;
}

TEST(Simulate, never_beats_the_floor_and_conserves_work) {
    for (unsigned seed = 0; seed < 100; ++seed)
        for (const Order order : {Order::Plan, Order::Rotated}) {
            const auto flows = random_flows(seed, 6, 10);
            const Fabric fabric(everything(), 6, 16);
            const Simulation s = simulate(flows, fabric, order);
            ASSERT_GE(s.seconds, predict(flows, fabric).seconds() * (1 - 1e-9)) << seed;
            // At any moment some port is full or slowed by incast to 0.7 at worst: not longer than
            // all ports' work in a row.
            double in_a_row = 0;
            for (const Port& port : predict(flows, fabric, 1000).busiest) in_a_row += port.seconds;
            ASSERT_LE(s.seconds, in_a_row / 0.7) << seed;
            for (const double end : s.flow_seconds) ASSERT_GT(end, 0) << seed;
        }
}

TEST(Simulate, is_deterministic_and_independent_of_the_order_of_flows) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        auto flows = random_flows(seed, 6, 10);
        const Simulation first = run(flows, everything(), 6, 16);
        ASSERT_EQ(first.flow_seconds, run(flows, everything(), 6, 16).flow_seconds);
        std::reverse(flows.begin(), flows.end());
        ASSERT_NEAR(first.seconds, run(flows, everything(), 6, 16).seconds, 1e-9 * first.seconds);
    }
}

TEST(Simulate, takes_as_many_times_longer_as_there_are_bytes_or_rates_are_lower) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        auto flows = random_flows(seed, 6, 10);
        const double once = run(flows, everything(), 6, 16).seconds;
        Cluster half = everything();
        half.port_rate /= 2;
        half.port_message_rate /= 2;
        half.nvlink_rate /= 2;
        ASSERT_NEAR(run(flows, half, 6, 16).seconds, 2 * once, 1e-9 * once);
        for (Flow& flow : flows) flow.bytes *= 3, flow.messages *= 3;
        ASSERT_NEAR(run(flows, everything(), 6, 16).seconds, 3 * once, 1e-9 * once);
    }
}

TEST(Simulate, of_many_flows_is_close_to_the_floor_where_all_ports_are_equal) {
    // 96 x 96 flows: beyond what is simulated end by end.
    std::vector<Flow> flows;
    for (Rank s = 0; s < 96; ++s)
        for (Rank d = 96; d < 192; ++d)
            flows.push_back({s, d, 1000 + static_cast<Bytes>((s * 7 + d * 13) % 96), 1});
    const Fabric fabric(ports_of_ten(), 96, 192);
    const Simulation s = simulate(flows, fabric, Order::Rotated);
    const double floor = predict(flows, fabric).seconds();
    EXPECT_GE(s.seconds, floor);
    EXPECT_LE(s.seconds, 1.02 * floor);
    EXPECT_NEAR(s.most_writers, 1, 1e-9);
}

// What the simulator takes for granted of the rotated order.
TEST(RotatedOrder, lets_no_more_sources_write_to_a_destination_at_once_than_divide_over_them) {
    struct Row {
        std::uint32_t sources, destinations;
    };
    for (const Row row : {Row{8, 8}, Row{16, 4}, Row{4, 16}, Row{7, 3}, Row{3, 7}, Row{32, 12},
                          Row{1, 5}, Row{5, 1}}) {
        constexpr Bytes kChunk = 100;
        const std::size_t rounds = 3 * row.destinations;
        std::vector<std::map<std::uint32_t, std::uint32_t>> writers(rounds);
        for (std::uint32_t s = 0; s < row.sources; ++s) {
            // Equal work: three chunks for each destination. A single destination is not cut, so
            // that its round is one copy.
            std::vector<std::vector<plan::Copy>> work;
            for (std::uint32_t d = 0; d < row.destinations; ++d)
                work.push_back({plan::Copy{d, 0, 0, 0, 0, 1, 3 * kChunk}});
            const auto copies = plan::rotate_copies(
                work, plan::first_destination(s, row.sources, row.destinations), kChunk);
            ASSERT_EQ(copies.size(), row.destinations == 1 ? 1 : rounds);
            for (std::size_t round = 0; round < copies.size(); ++round)
                ++writers[round][copies[round].destination];
        }
        const std::uint32_t most = (row.sources + row.destinations - 1) / row.destinations;
        for (const auto& round : writers)
            for (const auto& [destination, count] : round)
                EXPECT_LE(count, most) << row.sources << " -> " << row.destinations;
    }
}

}  // namespace
}  // namespace weightlift::sim
