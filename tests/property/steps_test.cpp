// Laws of the strategies in steps over generated layouts, nodes and limits of staging: however the
// ranks overtake each other, every rollout ends up with its bytes, and nothing is overwritten that
// someone still reads.
#include "weightlift/plan/steps.hpp"

#include <gtest/gtest.h>

#include "support/step_execution.hpp"

namespace weightlift::plan {
namespace {

using layout::Layout;
using layout::Side;
using test::pick;
using test::Random;
using test::StepExecution;
using test::Unread;

struct Scene {
    model::ModelSpec model;
    Layout trainer, rollout;
    Bytes minimum_slice = 0;
    StepOptions options;
};

Scene make_scene(Random& random) {
    auto model =
        test::random_model(random, static_cast<int>(pick(random, 1, 10)), {1, 40}, {1, 24});
    const bool is_even = random() % 2 == 0;
    auto trainer = test::random_layout(random, Side::Trainer, model,
                                       static_cast<Rank>(pick(random, 1, 8)), is_even, true);
    const auto engine = test::random_layout(random, Side::Rollout, model,
                                            static_cast<Rank>(pick(random, 1, 6)), is_even);
    auto rollout = test::repeat_engines(model, engine, static_cast<int>(pick(random, 1, 4)));
    StepOptions options;
    options.chunk = pick(random, 1, 4000);
    // From two rows a slot on; the largest parameter has two tensors of 40 rows of 48 bytes.
    options.staging_limit = random() % 4 == 0 ? 2 * GiB : pick(random, 8 * 256, 64 * 256);
    const Rank world = trainer.world_size() + rollout.world_size();
    switch (random() % 3) {
        case 0: break;
        case 1: {  // full nodes
            const auto size = static_cast<int>(pick(random, 1, 8));
            for (Rank r = 0; r < world; ++r) options.node.push_back(r / size);
            break;
        }
        default:
            for (Rank r = 0; r < world; ++r)
                options.node.push_back(static_cast<int>(pick(random, 0, 3)));
    }
    std::vector<int> divisors;
    for (int d = 1; d <= trainer.world_size(); ++d)
        if (trainer.world_size() % d == 0) divisors.push_back(d);
    options.stages = divisors[pick(random, 0, divisors.size() - 1)];
    return {std::move(model), std::move(trainer), std::move(rollout), pick(random, 0, 256),
            std::move(options)};
}

class StepLaws : public testing::TestWithParam<std::uint64_t> {
protected:
    void expect_every_order_to_work(Strategy strategy, Unread unread) {
        Scene scene = make_scene(random_);
        scene.options.fans_out = fans_out_;
        if (strategy == Strategy::Replica)  // whole parameters must fit
            for (const auto& parameter : scene.rollout.parameters())
                scene.options.staging_limit =
                    std::max(scene.options.staging_limit, 2 * round_up(parameter.bytes(), 256));
        const Planner planner(scene.model, scene.trainer, scene.rollout,
                              {.minimum_slice = scene.minimum_slice, .place = {}, .node = {}});
        const StepPlanner steps(planner, strategy, scene.options);
        StepExecution execution(planner, steps, unread);
        execution.run_round_by_round();
        for (int i = 0; i < 3; ++i) execution.run_at_random(random_);
        for (const StepPart& part : execution.parts())
            EXPECT_LE(part.staging, scene.options.staging_limit);
    }
    Random random_{GetParam()};
    bool fans_out_ = false;
};
INSTANTIATE_TEST_SUITE_P(Seeds, StepLaws, testing::Range<std::uint64_t>(1, 301));

TEST_P(StepLaws, relay_arrives_in_every_order) {
    expect_every_order_to_work(Strategy::Relay, Unread::Forbidden);
}

TEST_P(StepLaws, broadcast_arrives_in_every_order) {
    expect_every_order_to_work(Strategy::Broadcast, Unread::Allowed);
}

TEST_P(StepLaws, broadcast_to_all_at_once_arrives_in_every_order) {
    fans_out_ = true;
    expect_every_order_to_work(Strategy::Broadcast, Unread::Allowed);
}

TEST_P(StepLaws, replica_arrives_in_every_order) {
    expect_every_order_to_work(Strategy::Replica, Unread::Forbidden);
}

// The laws above mean something only if an order that a missing gate allows is found out.
TEST(StepExecution, finds_every_missing_gate) {
    Random random(5);
    const auto model = test::random_model(random, 4, {30, 40}, {20, 24});
    const auto trainer = test::random_layout(random, Side::Trainer, model, 3, true);
    const auto engine = test::random_layout(random, Side::Rollout, model, 2, true);
    const auto rollout = test::repeat_engines(model, engine, 2);
    const Planner planner(model, trainer, rollout);
    StepOptions options;
    options.chunk = 1024;
    options.staging_limit = 2 * 4096;
    options.node = {0, 0, 0, 1, 1, 2, 2};
    for (const Strategy strategy : {Strategy::Relay, Strategy::Broadcast, Strategy::Replica}) {
        const StepPlanner steps(planner, strategy, options);
        const Unread unread = strategy == Strategy::Broadcast ? Unread::Allowed : Unread::Forbidden;
        const StepExecution whole(planner, steps, unread);
        std::size_t gates = 0, found = 0;
        for (Rank rank = 0; rank < planner.world_size(); ++rank)
            for (std::size_t g = 0; g < whole.parts()[static_cast<std::size_t>(rank)].gates.size();
                 ++g) {
                StepExecution execution = whole;
                execution.remove_gate(rank, g);
                ++gates;
                bool is_found = false;
                for (int i = 0; i < 300 && !is_found; ++i) {
                    try {
                        execution.run_at_random(random);
                    } catch (const std::logic_error&) {
                        is_found = true;
                    }
                }
                found += is_found ? 1 : 0;
            }
        // Segments of broadcast wait for whole buckets, of which they may need a part.
        const bool may_exceed = strategy == Strategy::Broadcast;
        EXPECT_GT(gates, 0U);
        EXPECT_GE(found, may_exceed ? gates * 3 / 4 : gates)
            << to_string(strategy) << ", of " << gates;
    }
}

}  // namespace
}  // namespace weightlift::plan
