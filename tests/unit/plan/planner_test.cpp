#include "weightlift/plan/planner.hpp"

#include <algorithm>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"

#include "support/hand_layouts.hpp"
#include "support/shipped_models.hpp"
#include "unit/layout/refused.hpp"

namespace weightlift::plan {
namespace {

using layout::make_megatron_layout;
using layout::make_sglang_layout;
using layout::RolloutConfig;
using layout::Side;
using layout::TrainerConfig;
using test::hand_layout;
using test::hand_model;
using test::matrix;
using test::vector_of;

/// Model and layouts of one pair of configurations, at stable addresses for a planner.
struct Scene {
    model::ModelSpec model;
    Layout trainer, rollout;
    Scene(model::ModelSpec m, const TrainerConfig& t, const std::vector<RolloutConfig>& r)
        : model(std::move(m)),
          trainer(make_megatron_layout(model, t)),
          rollout(make_sglang_layout(model, r)) {}
};

std::vector<Transfer> of_tensor(const std::vector<Transfer>& all, model::TensorId tensor) {
    std::vector<Transfer> some;
    for (const Transfer& t : all)
        if (t.tensor == tensor) some.push_back(t);
    return some;
}

// README, "plan --format json": 2048 columns of bf16 over 8 trainers and 16 rollouts.
TEST(Planner, gives_the_documented_transfers_of_a_column_sharded_projection) {
    for (const char* name : {"deepseek-v2-lite", "moonlight-16b-a3b"}) {
        const Scene scene(test::shipped_model(name, 1), {.tp = 8}, {{.tp = 16}});
        const Planner planner(scene.model, scene.trainer, scene.rollout);
        const auto tensor = scene.model.id("model.layers.0.self_attn.o_proj.weight");
        for (Rank r = 0; r < 16; ++r) {
            const auto transfers = of_tensor(planner.received_by(8 + r), tensor);
            ASSERT_EQ(transfers.size(), 1U);
            const Transfer& t = transfers.front();
            const auto column = static_cast<std::uint64_t>(r) * 128;
            EXPECT_EQ(t.box, (Box{{0, 2048}, {column, column + 128}}));
            EXPECT_EQ(t.src.rank, r / 2);
            EXPECT_EQ(t.src.offset, r % 2 == 0 ? 0U : 256U);
            EXPECT_EQ(t.src.pitch, 512U);
            EXPECT_EQ(scene.trainer.parameter(t.src.parameter).name,
                      "decoder.layers.0.self_attention.linear_proj.weight");
            EXPECT_EQ(t.dst.rank, 8 + r);
            EXPECT_EQ(t.dst.offset, 0U);
            EXPECT_EQ(t.dst.pitch, 256U);
            EXPECT_EQ(scene.rollout.parameter(t.dst.parameter).name,
                      "model.layers.0.self_attn.o_proj.weight");
            EXPECT_EQ(t.rows, 2048U);
            EXPECT_EQ(t.row_bytes, 256U);
        }
    }
}

TEST(Planner, refuses_an_element_that_no_trainer_holds) {
    const auto model = hand_model({matrix("t", 4, 8)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 2, {{"half", "t", {{0, 2}, {0, 8}}, {0, 1}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 1, {{"whole", "t", {{0, 4}, {0, 8}}, {0}}});
    EXPECT_REFUSAL(
        Planner(model, trainer, rollout).world_size(),
        "no trainer holds t rows [2, 4) columns [0, 8), which rollout parameter whole needs");
}

TEST(Planner, refuses_a_hole_between_two_shards) {
    const auto model = hand_model({matrix("t", 4, 8)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 2,
                    {{"left", "t", {{0, 4}, {0, 3}}, {0}}, {"right", "t", {{0, 4}, {5, 8}}, {1}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 1, {{"whole", "t", {{1, 4}, {2, 7}}, {0}}});
    EXPECT_REFUSAL(Planner(model, trainer, rollout).world_size(),
                   "no trainer holds t rows [1, 4) columns [3, 5)");
}

TEST(Planner, does_not_ask_for_what_no_rollout_needs) {
    const auto model = hand_model({matrix("t", 4, 8), matrix("unused", 3, 3)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 1, {{"half", "t", {{0, 2}, {0, 8}}, {0}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 1, {{"part", "t", {{0, 2}, {2, 4}}, {0}}});
    const auto transfers = Planner(model, trainer, rollout).received_by(1);
    ASSERT_EQ(transfers.size(), 1U);
    EXPECT_EQ(transfers[0].box, (Box{{0, 2}, {2, 4}}));
    EXPECT_EQ(transfers[0].src.offset, 4U);
}

TEST(Planner, refuses_two_dtypes_of_one_tensor) {
    const auto wide = hand_model({matrix("t", 4, 8, DType::F32)});
    const auto narrow = hand_model({matrix("t", 4, 8, DType::BF16)});
    const Layout trainer =
        hand_layout(Side::Trainer, wide, 1, {{"master", "t", {{0, 4}, {0, 8}}, {0}}});
    const Layout rollout =
        hand_layout(Side::Rollout, narrow, 1, {{"served", "t", {{0, 4}, {0, 8}}, {0}}});
    EXPECT_REFUSAL(Planner(narrow, trainer, rollout).world_size(),
                   "trainer parameter master is fp32 but rollout parameter served is bf16");
}

TEST(Planner, refuses_two_formats_of_one_tensor) {
    const auto model = hand_model({matrix("t", 4, 8)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 1, {{"a", "t", {{0, 4}, {0, 8}}, {0}, "plain"}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 1, {{"b", "t", {{0, 4}, {0, 8}}, {0}, "swizzled"}});
    EXPECT_REFUSAL(Planner(model, trainer, rollout).world_size(),
                   "trainer parameter a has format 'plain' but rollout parameter b has format "
                   "'swizzled'");
}

TEST(Planner, joins_what_two_trainers_hold_where_they_meet) {
    // Columns [2, 6) of 8 straddle the trainers' border at 4.
    const auto model = hand_model({matrix("t", 3, 8)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 2,
                    {{"a", "t", {{0, 3}, {0, 4}}, {0}}, {"b", "t", {{0, 3}, {4, 8}}, {1}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 1, {{"c", "t", {{0, 3}, {2, 6}}, {0}}});
    const auto transfers = Planner(model, trainer, rollout).received_by(2);
    ASSERT_EQ(transfers.size(), 2U);
    EXPECT_EQ(transfers[0], (Transfer{0,
                                      {{0, 3}, {2, 4}},
                                      {0, Buffer::Weights, 0, 4, 8},
                                      {2, Buffer::Weights, 0, 0, 8},
                                      3,
                                      4}));
    EXPECT_EQ(transfers[1], (Transfer{0,
                                      {{0, 3}, {4, 6}},
                                      {1, Buffer::Weights, 1, 0, 8},
                                      {2, Buffer::Weights, 0, 4, 8},
                                      3,
                                      4}));
}

TEST(Planner, cuts_what_several_trainers_hold_and_rotates_by_destination) {
    const auto model = hand_model({matrix("t", 12, 4)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 3, {{"a", "t", {{0, 12}, {0, 4}}, {0, 1, 2}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 3, {{"b", "t", {{0, 12}, {0, 4}}, {0, 1, 2}}}, {0, 1, 2});
    const Planner planner(model, trainer, rollout, {.minimum_slice = 0, .place = {}, .node = {}});
    for (Rank r = 0; r < 3; ++r) {
        const auto transfers = planner.received_by(3 + r);
        ASSERT_EQ(transfers.size(), 3U);
        for (std::uint64_t i = 0; i < 3; ++i) {
            EXPECT_EQ(transfers[i].box.rows, (Interval{4 * i, 4 * i + 4}));
            EXPECT_EQ(transfers[i].src.rank,
                      static_cast<Rank>((static_cast<std::uint64_t>(r) + i) % 3));
        }
    }
}

TEST(Planner, cuts_a_single_row_by_columns) {
    const auto model = hand_model({vector_of("norm", 100)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 2, {{"a", "norm", {{0, 1}, {0, 100}}, {0, 1}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 1, {{"b", "norm", {{0, 1}, {0, 100}}, {0}}});
    const auto transfers =
        Planner(model, trainer, rollout, {.minimum_slice = 100, .place = {}, .node = {}})
            .received_by(2);
    ASSERT_EQ(transfers.size(), 2U);
    EXPECT_EQ(transfers[0].box.columns, (Interval{0, 50}));
    EXPECT_EQ(transfers[1].box.columns, (Interval{50, 100}));
    EXPECT_EQ(transfers[1].src.offset, 100U);
}

TEST(Planner, leaves_a_region_whole_that_is_below_two_minimum_slices) {
    const Scene scene(test::shipped_model("qwen3-4b", 1), {.tp = 2, .cp = 2}, {{.tp = 2}});
    const Planner planner(scene.model, scene.trainer, scene.rollout);
    for (Rank r = 4; r < 6; ++r)
        for (const Transfer& t : planner.received_by(r)) {
            const auto& piece =
                scene.rollout.parameter(t.dst.parameter).pieces;  // of one tensor each, or fused
            const auto at = std::find_if(piece.begin(), piece.end(), [&](const auto& p) {
                return p.tensor == t.tensor && p.box.contains(t.box);
            });
            ASSERT_NE(at, piece.end());
            if (t.box != at->box) {
                EXPECT_GE(t.bytes(), 256 * KiB);
            }
        }
}

TEST(Planner, keeps_the_transfers_of_an_engine_when_another_is_added) {
    struct Row {
        const char* name;
        const char* model;
        TrainerConfig trainer;
        RolloutConfig rollout;
    };
    // The last one is asymmetric: shares are levelled over uneven stages.
    for (const Row& row : {Row{"replicas", "qwen3-4b", {.tp = 2, .cp = 2}, {.tp = 2}},
                           Row{"experts",
                               "moonlight-16b-a3b",
                               {.tp = 2, .ep = 4, .etp = 1, .dp = 2},
                               {.tp = 4, .ep = 4}},
                           Row{"uneven_stages",
                               "qwen3-4b",
                               {.tp = 2, .pp = 2, .last_pipeline_layers = 1},
                               {.tp = 4}}}) {
        RolloutConfig two = row.rollout;
        two.engines = 2;
        const Scene one(test::shipped_model(row.model, 4), row.trainer, {row.rollout});
        const Scene both(test::shipped_model(row.model, 4), row.trainer, {two});
        const Planner before(one.model, one.trainer, one.rollout);
        const Planner after(both.model, both.trainer, both.rollout);
        ASSERT_EQ(after.rollouts(), 2 * before.rollouts());
        for (Rank r = before.trainers(); r < before.world_size(); ++r) {
            const auto old = before.received_by(r), now = after.received_by(r);
            EXPECT_EQ(before.digest(old), after.digest(now)) << row.name << " rank " << r;
            EXPECT_EQ(old.size(), now.size()) << row.name << " rank " << r;
        }
    }
}

class Digest : public testing::Test {
protected:
    Digest()
        : scene_(test::shipped_model("moonlight-16b-a3b", 2), {.tp = 2, .ep = 2, .dp = 2},
                 {{.tp = 4, .ep = 2}}) {}
    Scene scene_;
};

TEST_F(Digest, is_the_same_sum_over_senders_over_receivers_and_in_any_order) {
    const Planner planner(scene_.model, scene_.trainer, scene_.rollout);
    std::uint64_t by_senders = 0, by_receivers = 0;
    std::vector<Transfer> all;
    for (Rank r = 0; r < planner.world_size(); ++r) {
        by_senders += planner.digest(planner.sent_by(r));
        const auto received = planner.received_by(r);
        by_receivers += planner.digest(received);
        all.insert(all.end(), received.begin(), received.end());
    }
    EXPECT_EQ(by_senders, by_receivers);
    std::shuffle(all.begin(), all.end(), std::mt19937_64(3));
    EXPECT_EQ(planner.digest(all), by_receivers);
    EXPECT_EQ(planner.digest({}), 0U);
}

TEST_F(Digest, does_not_depend_on_the_order_of_the_parameter_tables) {
    const auto reordered = [&](const Layout& layout) {
        layout::LayoutBuilder builder(layout.side(), layout.description(), layout.world_size());
        if (layout.side() == Side::Rollout)
            for (const Rank first : layout.engine_begins()) builder.begin_engine(first);
        for (std::size_t i = layout.parameters().size(); i-- > 0;) {
            layout::Parameter p = layout.parameter(static_cast<layout::ParameterIndex>(i));
            const auto ranks = layout.rank_set(p.ranks);
            p.ranks = builder.rank_set({ranks.begin(), ranks.end()});
            builder.add(std::move(p));
        }
        return std::move(builder).finish(scene_.model);
    };
    const auto digest_of = [&](const Layout& trainer, const Layout& rollout) {
        const Planner planner(scene_.model, trainer, rollout);
        std::uint64_t sum = 0;
        for (Rank r = 0; r < planner.world_size(); ++r)
            sum += planner.digest(planner.received_by(r));
        return sum;
    };
    const Layout trainer = reordered(scene_.trainer), rollout = reordered(scene_.rollout);
    EXPECT_NE(rollout.parameter(0).name, scene_.rollout.parameter(0).name);
    const auto expected = digest_of(scene_.trainer, scene_.rollout);
    EXPECT_EQ(digest_of(trainer, scene_.rollout), expected);
    EXPECT_EQ(digest_of(scene_.trainer, rollout), expected);
    EXPECT_EQ(digest_of(trainer, rollout), expected);
}

TEST_F(Digest, changes_with_every_field_of_a_transfer) {
    const Planner planner(scene_.model, scene_.trainer, scene_.rollout);
    const auto transfers = planner.received_by(planner.trainers());
    ASSERT_GT(transfers.size(), 1U);
    const auto base = planner.digest(transfers);
    struct Row {
        const char* field;
        std::function<void(Transfer&)> change;
    };
    const Row rows[] = {
        {"tensor", [](Transfer& t) { ++t.tensor; }},
        {"box rows begin", [](Transfer& t) { ++t.box.rows.begin; }},
        {"box rows end", [](Transfer& t) { ++t.box.rows.end; }},
        {"box columns begin", [](Transfer& t) { ++t.box.columns.begin; }},
        {"box columns end", [](Transfer& t) { ++t.box.columns.end; }},
        {"src rank", [](Transfer& t) { ++t.src.rank; }},
        {"src buffer", [](Transfer& t) { t.src.buffer = Buffer::Staging; }},
        {"src parameter",
         [&](Transfer& t) {
             // A shard of another name: shards of one name are told apart by rank and box.
             const auto& name = scene_.trainer.parameter(t.src.parameter).name;
             while (scene_.trainer.parameter(t.src.parameter).name == name) ++t.src.parameter;
         }},
        {"src offset", [](Transfer& t) { ++t.src.offset; }},
        {"src pitch", [](Transfer& t) { ++t.src.pitch; }},
        {"dst rank", [](Transfer& t) { ++t.dst.rank; }},
        {"dst buffer", [](Transfer& t) { t.dst.buffer = Buffer::Staging; }},
        {"dst offset", [](Transfer& t) { ++t.dst.offset; }},
        {"dst pitch", [](Transfer& t) { ++t.dst.pitch; }},
        {"rows", [](Transfer& t) { ++t.rows; }},
        {"row bytes", [](Transfer& t) { ++t.row_bytes; }},
    };
    for (const Row& row : rows) {
        auto changed = transfers;
        row.change(changed.front());
        EXPECT_NE(planner.digest(changed), base) << row.field;
    }
    auto swapped = transfers;
    std::swap(swapped[0].src.offset, swapped[0].dst.offset);
    swapped[0].src.offset += 2;
    EXPECT_NE(planner.digest(swapped), base);
}

TEST(Planner, is_a_function_of_its_arguments_alone) {
    const auto make = [] {
        const Scene scene(test::shipped_model("glm-4.5-air", 3),
                          {.tp = 2, .ep = 4, .etp = 1, .dp = 4},
                          {{.tp = 4, .ep = 4, .engines = 2}});
        const Planner planner(scene.model, scene.trainer, scene.rollout);
        std::vector<std::vector<Transfer>> all;
        for (Rank r = 0; r < planner.world_size(); ++r) {
            all.push_back(planner.received_by(r));
            all.push_back(planner.sent_by(r));
        }
        return all;
    };
    EXPECT_EQ(make(), make());
}

TEST(Planner, gives_trainers_nothing_to_receive_and_rollouts_nothing_to_send) {
    const Scene scene(test::shipped_model("qwen3-4b", 1), {.tp = 2}, {{.tp = 2}});
    const Planner planner(scene.model, scene.trainer, scene.rollout);
    EXPECT_EQ(planner.world_size(), 4);
    for (Rank r = 0; r < 2; ++r) EXPECT_TRUE(planner.received_by(r).empty());
    for (Rank r = 2; r < 4; ++r) EXPECT_TRUE(planner.sent_by(r).empty());
}

}  // namespace
}  // namespace weightlift::plan
