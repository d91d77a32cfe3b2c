// What the strategies in steps move, worked out on paper; all orders of execution are in
// property/steps_test.cpp.
#include "weightlift/plan/steps.hpp"

#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"

#include "support/hand_layouts.hpp"
#include "support/shipped_models.hpp"

namespace weightlift::plan {
namespace {

using layout::Layout;
using layout::Side;
using test::hand_layout;
using test::hand_model;
using test::matrix;

Bytes payload(const layout::Parameter& parameter) {
    Bytes bytes = 0;
    for (const auto& piece : parameter.pieces)
        bytes += piece.box.elements() * element_bytes(parameter.dtype);
    return bytes;
}

Bytes payload_of(const Layout& layout, Rank rank) {
    Bytes bytes = 0;
    for (const auto p : layout.parameters_of(rank)) bytes += payload(layout.parameter(p));
    return bytes;
}

/// Bytes of a plan by (step, src, dst), a rank's own copies apart.
struct Traffic {
    std::map<std::tuple<std::string, Rank, Rank>, Bytes> between;
    Bytes staging = 0;  ///< the most of any rank

    Traffic(const Planner& planner, Strategy strategy, const StepOptions& options) {
        const StepPlanner steps(planner, strategy, options);
        for (Rank r = 0; r < planner.world_size(); ++r) {
            const StepPart part = steps.part_of(r);
            staging = std::max(staging, part.staging);
            for (const StepSegment& segment : part.sent)
                if (segment.src != segment.dst && segment.bytes() > 0)
                    between[{std::string(steps.steps()[segment.step]), segment.src, segment.dst}] +=
                        segment.bytes();
        }
    }
    [[nodiscard]] Bytes in(const std::string& step) const {
        return std::accumulate(
            between.begin(), between.end(), Bytes{0}, [&](Bytes sum, const auto& entry) {
                return sum + (std::get<0>(entry.first) == step ? entry.second : 0);
            });
    }
};

TEST(StepPlanner, names_strategies) {
    for (const Strategy s :
         {Strategy::Direct, Strategy::Replica, Strategy::Broadcast, Strategy::Relay})
        EXPECT_EQ(find_strategy(to_string(s)), s);
    EXPECT_EQ(find_strategy("broadcasts"), std::nullopt);
}

struct Scene {
    model::ModelSpec model;
    Layout trainer, rollout;
    Planner planner{model, trainer, rollout};
    Scene(const char* name, std::uint64_t layers, const layout::TrainerConfig& t,
          const layout::RolloutConfig& r)
        : model(test::shipped_model(name, layers)),
          trainer(layout::make_megatron_layout(model, t)),
          rollout(layout::make_sglang_layout(model, {&r, 1})) {}
    Scene(const Scene&) = delete;
};

class ByEngines : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Engines, ByEngines, testing::Values(1, 2, 4, 8));

TEST_P(ByEngines, relay_takes_one_engines_distinct_bytes_from_the_trainers) {
    const Scene scene("moonlight-16b-a3b", 2, {.tp = 2, .ep = 4, .etp = 1, .dp = 2},
                      {.tp = 4, .ep = 2, .engines = GetParam()});
    Bytes distinct = 0, copies = 0;
    for (const auto& parameter : scene.rollout.parameters()) {
        distinct += payload(parameter);
        copies += payload(parameter) * scene.rollout.rank_set(parameter.ranks).size();
    }
    const Traffic alone(scene.planner, Strategy::Relay, {});
    EXPECT_EQ(alone.in("enter"), distinct);
    EXPECT_EQ(alone.in("relay"), copies - distinct);
    EXPECT_EQ(alone.in("fan out"), 0U);
    EXPECT_EQ(alone.staging, 0U);

    // Engines of 4 ranks on nodes of 4: copies inside a node fan out there.
    StepOptions options;
    for (Rank r = 0; r < scene.planner.world_size(); ++r) options.node.push_back(r / 4);
    Bytes between_nodes = 0;
    for (const auto& parameter : scene.rollout.parameters()) {
        std::set<Rank> nodes;
        for (const Rank r : scene.rollout.rank_set(parameter.ranks)) nodes.insert(r / 4);
        between_nodes += payload(parameter) * (nodes.size() - 1);
    }
    const Traffic nodes(scene.planner, Strategy::Relay, options);
    EXPECT_EQ(nodes.in("enter"), distinct);
    EXPECT_EQ(nodes.in("relay"), between_nodes);
    EXPECT_EQ(nodes.in("fan out"), copies - distinct - between_nodes);
}

TEST_P(ByEngines, broadcast_gathers_what_roots_lack_and_sends_all_to_each_rollout) {
    const Scene scene("moonlight-16b-a3b", 2, {.tp = 2, .pp = 2, .dp = 2},
                      {.tp = 2, .engines = GetParam()});
    StepOptions options;
    options.stages = 2;
    options.staging_limit = 2 * GiB;
    // Of what is sharded over two tensor ranks a root lacks half.
    Bytes lacks = 0, all = 0;
    for (const auto& parameter : scene.trainer.parameters()) {
        const auto ranks = scene.trainer.rank_set(parameter.ranks);
        const bool is_root = ranks.front() % 4 == 0;
        if (!is_root) lacks += payload(parameter);
    }
    for (const auto& tensor : scene.model.tensors()) all += tensor.bytes();
    const Traffic traffic(scene.planner, Strategy::Broadcast, options);
    EXPECT_EQ(traffic.in("gather"), lacks);
    // Tensors begin at multiples of the alignment in a bucket.
    const Bytes to_all = all * static_cast<Bytes>(scene.planner.rollouts());
    EXPECT_GE(traffic.in("broadcast"), to_all);
    EXPECT_LE(traffic.in("broadcast"), to_all + scene.model.tensors().size() * kArenaAlignment *
                                                    static_cast<Bytes>(scene.planner.rollouts()));
    EXPECT_LE(traffic.staging, options.staging_limit);
}

TEST_P(ByEngines, replica_gathers_a_shard_once_and_writes_all_of_each_target) {
    // Source i of 4 serves the targets of rank i in every engine, which hold the same.
    const Scene scene("moonlight-16b-a3b", 2, {.tp = 4}, {.tp = 4, .engines = GetParam()});
    StepOptions options;
    options.staging_limit = 2 * GiB;
    Bytes lacks = 0, written = 0;
    for (Rank r = 0; r < 4; ++r)
        for (const Transfer& t : scene.planner.received_by(4 + r)) {
            const auto refs = scene.trainer.pieces_of(t.tensor);
            const bool has = std::any_of(refs.begin(), refs.end(), [&](const auto& ref) {
                const auto& parameter = scene.trainer.parameter(ref.parameter);
                return parameter.pieces[ref.piece].box.contains(t.box) &&
                       scene.trainer.holds(parameter.ranks, r);
            });
            if (!has) lacks += t.bytes();
        }
    for (Rank r = 0; r < scene.rollout.world_size(); ++r) written += payload_of(scene.rollout, r);
    const Traffic traffic(scene.planner, Strategy::Replica, options);
    EXPECT_EQ(traffic.in("gather"), lacks);
    EXPECT_EQ(traffic.in("write"), written);
    EXPECT_LE(traffic.staging, options.staging_limit);
}

TEST(StepPlanner, cuts_a_tensor_larger_than_a_slot_and_refuses_a_row_that_is) {
    const auto model = hand_model({matrix("w", 8, 512)});  // rows of 1024 bytes
    const Layout trainer =
        hand_layout(Side::Trainer, model, 1, {{"w", "w", {{0, 8}, {0, 512}}, {0}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 1, {{"w", "w", {{0, 8}, {0, 512}}, {0}}});
    const Planner planner(model, trainer, rollout);
    StepOptions options;
    options.staging_limit = 2 * 3072;
    const StepPlanner steps(planner, Strategy::Broadcast, options);
    // 8 rows in parts of at most 3: 2, 3, 3, each cut out once.
    std::vector<Bytes> cut_out;
    const StepPart part = steps.part_of(1);
    for (const StepSegment& segment : part.sent)
        if (segment.dst == 1) cut_out.push_back(segment.bytes());
    EXPECT_EQ(cut_out, (std::vector<Bytes>{2048, 3072, 3072}));
    EXPECT_EQ(part.staging, 2U * 3072);

    const auto refusal = [&](Strategy strategy) -> std::string {
        options.staging_limit = 2 * 768;
        try {
            (void)StepPlanner(planner, strategy, options);
        } catch (const ConfigError& error) {
            return error.what();
        }
        return "accepted";
    };
    EXPECT_EQ(
        refusal(Strategy::Broadcast),
        "staging limit: a row of w has 1024 bytes, but half of the limit is 768; it must fit");
    EXPECT_EQ(refusal(Strategy::Replica),
              "staging limit: rollout parameter w has 8192 bytes, but half of the limit is 768; it "
              "must fit");
    EXPECT_EQ(refusal(Strategy::Relay), "accepted");
}

TEST(StepPlanner, leaves_sources_idle_that_have_no_target) {
    const auto model = hand_model({matrix("w", 8, 4)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 4, {{"w", "w", {{0, 8}, {0, 4}}, {0, 1, 2, 3}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 1, {{"w", "w", {{0, 8}, {0, 4}}, {0}}});
    const Planner planner(model, trainer, rollout);
    const StepPlanner steps(planner, Strategy::Replica, {});
    EXPECT_EQ(steps.part_of(0).sent.size(), 2U);  // its own copy, then the write
    for (Rank r = 1; r < 4; ++r) EXPECT_TRUE(steps.part_of(r).sent.empty());
}

// A thousand trainers and twice as many rollouts: one rank's part takes well below a second.
TEST(StepPlanner, makes_one_ranks_part_of_a_large_plan_quickly) {
    const Scene scene(
        "deepseek-v3", 0,
        layout::parse_trainer("tp=4,pp=8,ep=32,etp=1,world=1024,last-pipeline-layers=5"),
        layout::parse_rollout("tp=32,ep=32,attn-dp=8,moe-dense-tp=1,engines=64"));
    StepOptions options;
    options.stages = 8;
    options.staging_limit = 8 * GiB;
    for (Rank r = 0; r < scene.planner.world_size(); ++r) options.node.push_back(r / 8);
    for (const Strategy strategy : {Strategy::Relay, Strategy::Broadcast, Strategy::Replica}) {
        const StepPlanner steps(scene.planner, strategy, options);
        for (const Rank rank : {0, 517, 1024, 3071}) {
            const auto begin = std::chrono::steady_clock::now();
            const StepPart part = steps.part_of(rank);
            const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
            RecordProperty(std::string(to_string(strategy)) + std::to_string(rank),
                           std::to_string(seconds.count()));
            // Generous: sanitizers and busy machines take their time.
            EXPECT_LT(seconds.count(), 20) << to_string(strategy) << " rank " << rank;
        }
    }
}

}  // namespace
}  // namespace weightlift::plan
