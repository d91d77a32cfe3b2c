// The rollout's rules, with numbers of published models.
#include <set>

#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"

#include "layout_queries.hpp"
#include "models.hpp"

namespace weightlift::layout {
namespace {

using Sizes = std::vector<std::uint64_t>;
using Ranks = std::vector<Rank>;

Layout make(const model::Architecture& a, const char* config) {
    const RolloutConfig group = parse_rollout(config);
    return make_sglang_layout(make_model(a), std::span(&group, 1));
}

TEST(SglangLayout, pads_the_vocabulary_to_64) {
    const Layout layout = make(truncated(qwen3_8b(), 1), "tp=4");
    EXPECT_EQ(shape(layout, 1, "model.embed_tokens.weight"), (Sizes{37984, 4096}));
    EXPECT_EQ(first_rows(layout, 1, "model.embed_tokens.weight"), (Interval{37984, 75968}));
    model::Architecture odd = truncated(qwen3_8b(), 1);
    odd.vocab_size = 100;
    const Layout padded = make(odd, "tp=4");
    EXPECT_EQ(shape(padded, 3, "lm_head.weight"), (Sizes{32, 4096}));
    EXPECT_EQ(first_rows(padded, 3, "lm_head.weight"), (Interval{96, 100}));
    EXPECT_EQ(find(padded, 3, "lm_head.weight")->padding,
              (std::vector<Padding>{{4 * 8192, 8192, 28, 8192}}));
}

TEST(SglangLayout, may_have_a_shard_that_is_all_padding) {
    model::Architecture tiny = truncated(qwen3_8b(), 1);
    tiny.vocab_size = 70;  // padded to 128
    const Layout layout = make(tiny, "tp=4");
    const Parameter& last = *find(layout, 3, "model.embed_tokens.weight");
    EXPECT_EQ(last.shape, (Shape{{32, 4096, 0}, 2}));
    EXPECT_TRUE(last.pieces.empty());
    EXPECT_EQ(last.padding, (std::vector<Padding>{{0, 8192, 32, 8192}}));
}

TEST(SglangLayout, fuses_and_names_a_latent_attention_layer) {
    const Layout layout = make(truncated(deepseek_v3(), 4), "tp=16,ep=16");
    std::set<std::string> names;
    for (const ParameterIndex i : layout.parameters_of(7)) {
        const std::string& name = layout.parameter(i).name;
        if (name.starts_with("model.layers.3.")) names.insert(name.substr(15));
    }
    EXPECT_EQ(
        names,
        (std::set<std::string>{
            "input_layernorm.weight", "post_attention_layernorm.weight",
            "self_attn.fused_qkv_a_proj_with_mqa.weight", "self_attn.q_a_layernorm.weight",
            "self_attn.q_b_proj.weight", "self_attn.kv_a_layernorm.weight",
            "self_attn.kv_b_proj.weight", "self_attn.o_proj.weight", "mlp.gate.weight",
            "mlp.gate.e_score_correction_bias", "mlp.experts.w13_weight", "mlp.experts.w2_weight",
            "mlp.shared_experts.gate_up_proj.weight", "mlp.shared_experts.down_proj.weight"}));
    const auto of = [&](const std::string& name) {
        return shape(layout, 7, "model.layers.3." + name);
    };
    EXPECT_EQ(of("self_attn.fused_qkv_a_proj_with_mqa.weight"), (Sizes{2112, 7168}));
    EXPECT_EQ(of("self_attn.q_b_proj.weight"), (Sizes{8 * 192, 1536}));
    EXPECT_EQ(of("self_attn.kv_b_proj.weight"), (Sizes{8 * 256, 512}));
    EXPECT_EQ(of("self_attn.o_proj.weight"), (Sizes{7168, 8 * 128}));
    EXPECT_EQ(of("mlp.experts.w13_weight"), (Sizes{16, 4096, 7168}));
    EXPECT_EQ(of("mlp.experts.w2_weight"), (Sizes{16, 7168, 2048}));
    EXPECT_EQ(of("mlp.shared_experts.gate_up_proj.weight"), (Sizes{256, 7168}));
    EXPECT_EQ(of("mlp.shared_experts.down_proj.weight"), (Sizes{7168, 128}));
    EXPECT_EQ(find(layout, 7, "model.layers.3.mlp.gate.e_score_correction_bias")->dtype,
              DType::F32);
    EXPECT_EQ(shape(layout, 7, "model.layers.2.mlp.gate_up_proj.weight"), (Sizes{2304, 7168}));
    EXPECT_EQ(shape(layout, 7, "model.layers.2.mlp.down_proj.weight"), (Sizes{7168, 1152}));
}

TEST(SglangLayout, has_separate_projections_without_q_lora_rank) {
    const Layout layout = make(truncated(moonlight(), 1), "tp=8");
    EXPECT_EQ(shape(layout, 0, "model.layers.0.self_attn.q_proj.weight"), (Sizes{2 * 192, 2048}));
    EXPECT_EQ(shape(layout, 0, "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"),
              (Sizes{576, 2048}));
    EXPECT_EQ(find(layout, 0, "model.layers.0.self_attn.fused_qkv_a_proj_with_mqa.weight"),
              nullptr);
}

TEST(SglangLayout, cuts_expert_width_over_moe_tp) {
    const struct {
        const char* config;
        Rank rank;
        Sizes w13;
        Interval rows;  ///< of the first local expert
        const char* first_expert;
    } rows[] = {
        {"tp=8", 3, {64, 2 * 176, 2048}, {528, 704}, "0"},
        {"tp=16", 15, {64, 2 * 88, 2048}, {1320, 1408}, "0"},
        {"tp=8,ep=8", 3, {8, 2816, 2048}, {0, 1408}, "24"},
        {"tp=8,ep=2", 3, {32, 2 * 352, 2048}, {1056, 1408}, "0"},  // moe_tp is the fast index
        {"tp=8,ep=2", 5, {32, 2 * 352, 2048}, {352, 704}, "32"},
    };
    const ModelSpec model = make_model(truncated(moonlight(), 2));
    for (const auto& row : rows) {
        const RolloutConfig group = parse_rollout(row.config);
        const Layout layout = make_sglang_layout(model, std::span(&group, 1));
        const std::string name = "model.layers.1.mlp.experts.w13_weight";
        EXPECT_EQ(shape(layout, row.rank, name), row.w13) << row.config;
        const std::vector<Piece>& pieces = find(layout, row.rank, name)->pieces;
        EXPECT_EQ(pieces[0].box.rows, row.rows) << row.config;
        const std::string expert = std::string("model.layers.1.mlp.experts.") + row.first_expert;
        EXPECT_EQ(model.tensor(pieces[0].tensor).name, expert + ".gate_proj.weight");
        EXPECT_EQ(model.tensor(pieces[1].tensor).name, expert + ".up_proj.weight");
        EXPECT_EQ(pieces[1].offset, row.rows.size() * 2048 * 2);
    }
}

TEST(SglangLayout, replicates_key_value_heads_when_there_are_fewer_than_ranks) {
    const ModelSpec model = make_model(truncated(qwen3_235b(), 1));  // 64 heads, 4 of kv
    const RolloutConfig group = parse_rollout("tp=32,ep=32");
    const Layout layout = make_sglang_layout(model, std::span(&group, 1));
    const std::string name = "model.layers.0.self_attn.qkv_proj.weight";
    const TensorId q = model.id("model.layers.0.self_attn.q_proj.weight");
    for (const Rank rank : {0, 7, 8, 31}) {
        const auto r = static_cast<std::uint64_t>(rank);
        EXPECT_EQ(shape(layout, rank, name), (Sizes{4 * 128, 4096}));
        const Interval kv{r / 8 * 128, r / 8 * 128 + 128};
        const Bytes row = 4096 * 2;
        EXPECT_EQ(find(layout, rank, name)->pieces,
                  (std::vector<Piece>{{q, {{r * 256, r * 256 + 256}, {0, 4096}}, 0, row},
                                      {q + 1, {kv, {0, 4096}}, 256 * row, row},
                                      {q + 2, {kv, {0, 4096}}, 384 * row, row}}))
            << rank;
    }
}

TEST(SglangLayout, cuts_attention_over_attention_tp_and_shares_replicas) {
    const Layout layout =
        make(truncated(kimi_k2(), 2), "tp=32,ep=32,attn-dp=8,moe-dense-tp=1,engines=2");
    EXPECT_EQ(layout.world_size(), 64);
    const std::string attention = "model.layers.1.self_attn.";
    EXPECT_EQ(shape(layout, 6, attention + "q_b_proj.weight"), (Sizes{16 * 192, 1536}));
    Ranks every_fourth;
    for (Rank rank = 2; rank < 64; rank += 4) every_fourth.push_back(rank);
    EXPECT_EQ(holders(layout, 6, attention + "o_proj.weight"), every_fourth);
    EXPECT_EQ(holders(layout, 6, "model.embed_tokens.weight"), every_fourth);
    EXPECT_EQ(shape(layout, 6, "model.embed_tokens.weight"), (Sizes{163840 / 4, 7168}));
    EXPECT_EQ(shape(layout, 6, "lm_head.weight"), (Sizes{163840 / 32, 7168}));
    EXPECT_EQ(holders(layout, 6, "lm_head.weight"), (Ranks{6, 38}));
    // The dense layer is whole everywhere, shared experts are cut over all of tp.
    EXPECT_EQ(shape(layout, 6, "model.layers.0.mlp.gate_up_proj.weight"), (Sizes{36864, 7168}));
    EXPECT_EQ(holders(layout, 6, "model.layers.0.mlp.down_proj.weight").size(), 64U);
    EXPECT_EQ(shape(layout, 6, "model.layers.1.mlp.shared_experts.gate_up_proj.weight"),
              (Sizes{128, 7168}));
    EXPECT_EQ(shape(layout, 6, "model.layers.1.mlp.experts.w13_weight"), (Sizes{12, 4096, 7168}));
}

TEST(SglangLayout, cuts_the_head_over_attention_tp_when_asked) {
    const Layout layout = make(truncated(kimi_k2(), 2), "tp=8,attn-dp=4,dp-lm-head=1");
    EXPECT_EQ(shape(layout, 5, "lm_head.weight"), (Sizes{163840 / 2, 7168}));
    EXPECT_EQ(holders(layout, 5, "lm_head.weight"), (Ranks{1, 3, 5, 7}));
}

TEST(SglangLayout, fuses_the_shared_expert_as_the_last_one) {
    const ModelSpec model = make_model(truncated(deepseek_v3(), 4));
    const RolloutConfig group = parse_rollout("tp=8,fuse-shared-experts=1");
    const Layout layout = make_sglang_layout(model, std::span(&group, 1));
    const std::string prefix = "model.layers.3.mlp.";
    EXPECT_EQ(find(layout, 2, prefix + "shared_experts.gate_up_proj.weight"), nullptr);
    const Parameter& w13 = *find(layout, 2, prefix + "experts.w13_weight");
    EXPECT_EQ(w13.shape, (Shape{{257, 512, 7168}, 3}));
    EXPECT_EQ(w13.pieces.back().tensor,
              model.id("model.layers.3.mlp.shared_experts.up_proj.weight"));
    EXPECT_EQ(w13.pieces.back().box.rows, (Interval{512, 768}));
    const Parameter& w2 = *find(layout, 2, prefix + "experts.w2_weight");
    EXPECT_EQ(w2.shape, (Shape{{257, 7168, 256}, 3}));
    EXPECT_EQ(w2.pieces.back().tensor,
              model.id("model.layers.3.mlp.shared_experts.down_proj.weight"));
}

TEST(SglangLayout, puts_pipeline_stages_one_after_the_other) {
    const Layout layout = make(truncated(moonlight(), 5), "tp=2,pp=2,engines=2");
    EXPECT_EQ(layout.world_size(), 8);
    EXPECT_EQ(layout.engine_of(4), 1);
    EXPECT_EQ(holders(layout, 5, "model.embed_tokens.weight"), (Ranks{1, 5}));
    EXPECT_EQ(holders(layout, 2, "model.norm.weight"), (Ranks{2, 3, 6, 7}));
    EXPECT_EQ(holders(layout, 3, "lm_head.weight"), (Ranks{3, 7}));
    EXPECT_EQ(holders(layout, 0, "model.layers.1.input_layernorm.weight"), (Ranks{0, 1, 4, 5}));
    EXPECT_EQ(holders(layout, 2, "model.layers.2.input_layernorm.weight"), (Ranks{2, 3, 6, 7}));
    EXPECT_EQ(find(layout, 2, "model.embed_tokens.weight"), nullptr);
}

TEST(SglangLayout, copies_a_tied_embedding_only_to_another_stage) {
    EXPECT_EQ(find(make(truncated(qwen3_4b(), 2), "tp=2"), 0, "lm_head.weight"), nullptr);
    const Layout staged = make(truncated(qwen3_4b(), 2), "tp=2,pp=2");
    EXPECT_EQ(find(staged, 3, "lm_head.weight")->pieces,
              find(staged, 1, "model.embed_tokens.weight")->pieces);
    EXPECT_EQ(find(staged, 1, "lm_head.weight"), nullptr);
}

TEST(SglangLayout, prefixes_mtp_with_the_layer_of_the_checkpoint) {
    model::Architecture a = truncated(glm_4_5_air(), 2);
    a.mtp_layers = 1;
    const Layout layout = make(a, "tp=4,ep=4,pp=2");
    EXPECT_EQ(shape(layout, 4, "model.layers.2.eh_proj.weight"), (Sizes{4096, 8192}));
    for (const char* name : {"enorm.weight", "hnorm.weight", "shared_head.norm.weight"})
        EXPECT_EQ(holders(layout, 4, std::string("model.layers.2.") + name), (Ranks{4, 5, 6, 7}));
    EXPECT_EQ(shape(layout, 4, "model.layers.2.decoder.self_attn.qkv_proj.bias"),
              (Sizes{(24 + 2 + 2) * 128}));
    EXPECT_EQ(shape(layout, 7, "model.layers.2.decoder.mlp.experts.w13_weight"),
              (Sizes{32, 2816, 4096}));
    EXPECT_EQ(find(layout, 0, "model.layers.2.enorm.weight"), nullptr);
}

TEST(SglangLayout, numbers_engines_through_several_groups) {
    const std::vector<RolloutConfig> groups = {parse_rollout("tp=2,engines=2"),
                                               parse_rollout("tp=4,ep=2")};
    const Layout layout = make_sglang_layout(make_model(truncated(moonlight(), 2)), groups);
    EXPECT_EQ(layout.description(), "tp=2,engines=2+tp=4,ep=2");
    EXPECT_EQ(layout.world_size(), 8);
    EXPECT_EQ((Ranks{layout.engine_begins().begin(), layout.engine_begins().end()}),
              (Ranks{0, 2, 4}));
    EXPECT_EQ(holders(layout, 3, "lm_head.weight"), (Ranks{1, 3}));
    EXPECT_EQ(holders(layout, 5, "lm_head.weight"), (Ranks{5}));
    EXPECT_EQ(shape(layout, 3, "lm_head.weight"), (Sizes{81920, 2048}));
    EXPECT_EQ(shape(layout, 5, "lm_head.weight"), (Sizes{40960, 2048}));
}

}  // namespace
}  // namespace weightlift::layout
