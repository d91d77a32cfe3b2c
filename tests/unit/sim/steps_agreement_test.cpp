// What is predicted of a strategy in steps is what its plan moves: by step, source and destination.
#include <cmath>
#include <map>
#include <ostream>
#include <tuple>

#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"
#include "weightlift/plan/steps.hpp"
#include "weightlift/sim/strategies.hpp"

#include "support/shipped_models.hpp"

namespace weightlift::sim {
namespace {

struct Scenario {
    const char* name;
    const char* model;
    std::uint64_t layers;
    layout::TrainerConfig trainer;
    std::vector<layout::RolloutConfig> rollout;
    int stages = 1;
    int nvlink_domain = 0;
};
std::ostream& operator<<(std::ostream& out, const Scenario& row) { return out << row.name; }

using Pairs = std::map<std::tuple<std::string, Rank, Rank>, Bytes>;

Pairs predicted(const StrategyFlows& flows) {
    Pairs pairs;
    for (const Step& step : flows.steps)
        for (const Flow& flow : step.flows) pairs[{step.name, flow.src, flow.dst}] += flow.bytes;
    return pairs;
}

class Agreement : public testing::TestWithParam<Scenario> {
protected:
    const Scenario& row_ = GetParam();
    model::ModelSpec model_ = test::shipped_model(row_.model, row_.layers);
    layout::Layout trainer_ = layout::make_megatron_layout(model_, row_.trainer);
    layout::Layout rollout_ = layout::make_sglang_layout(model_, row_.rollout);
    plan::Planner planner_{model_, trainer_, rollout_};

    [[nodiscard]] Fabric fabric() const {
        Cluster cluster;
        cluster.ranks_per_node = 8;
        cluster.ports_per_node = 8;
        cluster.port_rate = 1;
        cluster.nvlink_domain_ranks = row_.nvlink_domain;
        cluster.nvlink_rate = 1;
        return Fabric(cluster, planner_.trainers(), planner_.world_size());
    }

    [[nodiscard]] Pairs planned(plan::Strategy strategy) const {
        plan::StepOptions options;
        options.stages = row_.stages;
        const Fabric places = fabric();
        for (Rank r = 0; r < planner_.world_size(); ++r)
            options.node.push_back(row_.nvlink_domain > 0 ? places.place(r).domain : r);
        const plan::StepPlanner steps(planner_, strategy, options);
        Pairs pairs;
        for (Rank r = 0; r < planner_.world_size(); ++r)
            for (const plan::StepSegment& segment : steps.part_of(r).sent)
                if (segment.src != segment.dst && segment.bytes() > 0)
                    pairs[{std::string(steps.steps()[segment.step]), segment.src, segment.dst}] +=
                        segment.bytes();
        return pairs;
    }
};

TEST_P(Agreement, relay) {
    EXPECT_EQ(planned(plan::Strategy::Relay),
              predicted(relay_flows(planner_, fabric(), Rows::Direct)));
}

TEST_P(Agreement, replica) {
    EXPECT_EQ(planned(plan::Strategy::Replica),
              predicted(replica_flows(planner_, row_.stages, Rows::Direct)));
}

// The plan cuts at multiples of an alignment; the prediction takes equal shares.
TEST_P(Agreement, broadcast_within_rounding) {
    const Pairs plan = planned(plan::Strategy::Broadcast);
    const Pairs prediction = predicted(broadcast_flows(planner_, fabric(), row_.stages));
    for (const auto& [way, bytes] : prediction) {
        const auto& [step, src, dst] = way;
        const auto found = plan.find(way);
        ASSERT_NE(found, plan.end()) << step << " " << src << " -> " << dst;
        const auto exact = static_cast<double>(bytes);
        const double allowed = step == "gather" ? 0 : 0.002 * exact + 1e5;
        EXPECT_NEAR(static_cast<double>(found->second), exact, allowed)
            << step << " " << src << " -> " << dst;
    }
    EXPECT_EQ(plan.size(), prediction.size());
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, Agreement,
    testing::Values(
        Scenario{"tensor_parallel", "moonlight-16b-a3b", 3, {.tp = 8}, {{.tp = 16}}},
        Scenario{"on_nodes", "moonlight-16b-a3b", 3, {.tp = 8}, {{.tp = 8, .engines = 3}}, 1, 8},
        Scenario{"expert_parallel_on_nodes",
                 "qwen3-30b-a3b",
                 3,
                 {.tp = 4, .ep = 8, .etp = 1, .dp = 2},
                 {{.tp = 8, .ep = 8, .engines = 2}},
                 1,
                 4},
        Scenario{"stages",
                 "moonlight-16b-a3b",
                 4,
                 {.tp = 2, .pp = 2, .dp = 2},
                 {{.tp = 4, .engines = 2}},
                 2,
                 8},
        Scenario{"tied_embeddings_on_two_stages",
                 "qwen3-4b",
                 4,
                 {.tp = 2, .pp = 2},
                 {{.tp = 2, .engines = 3}},
                 2},
        Scenario{
            "groups_of_unequal_size", "qwen3-4b", 4, {.tp = 2}, {{.tp = 2, .engines = 5}}, 1, 4},
        Scenario{"attention_data_parallel",
                 "deepseek-v2-lite",
                 3,
                 {.tp = 2, .ep = 4, .etp = 1, .dp = 2},
                 {{.tp = 8, .ep = 8, .engines = 2, .attn_dp = 4, .moe_dense_tp = 1}},
                 1,
                 8}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace weightlift::sim
