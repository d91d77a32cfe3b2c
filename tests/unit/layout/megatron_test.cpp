// The trainer's rules, with numbers of published models.
#include <set>

#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"

#include "layout_queries.hpp"
#include "models.hpp"

namespace weightlift::layout {
namespace {

using Sizes = std::vector<std::uint64_t>;
using Ranks = std::vector<Rank>;

std::set<std::string> names(const Layout& layout, Rank rank) {
    std::set<std::string> result;
    for (const ParameterIndex i : layout.parameters_of(rank))
        result.insert(layout.parameter(i).name);
    return result;
}

TEST(MegatronLayout, pads_the_vocabulary_to_128_rows_per_tp_rank) {
    const ModelSpec model = make_model(truncated(qwen3_8b(), 1));
    const Layout layout = make_megatron_layout(model, parse_trainer("tp=4"));
    const std::string name = "embedding.word_embeddings.weight";
    for (Rank rank = 0; rank < 4; ++rank)
        EXPECT_EQ(shape(layout, rank, name), (Sizes{38016, 4096}));
    EXPECT_EQ(first_rows(layout, 1, name), (Interval{38016, 76032}));
    EXPECT_EQ(first_rows(layout, 3, name), (Interval{114048, 151936}));
    EXPECT_TRUE(find(layout, 2, name)->padding.empty());
    const Bytes row = 4096 * 2;
    EXPECT_EQ(find(layout, 3, name)->padding, (std::vector<Padding>{{37888 * row, row, 128, row}}));
    EXPECT_EQ(shape(layout, 3, "output_layer.weight"), (Sizes{38016, 4096}));
}

TEST(MegatronLayout, names_a_latent_attention_layer) {
    const ModelSpec model = make_model(truncated(deepseek_v3(), 4));
    const Layout layout = make_megatron_layout(model, parse_trainer("tp=2,ep=256,etp=1"));
    const std::set<std::string> all = names(layout, 0);
    std::set<std::string> expected = {"embedding.word_embeddings.weight",
                                      "decoder.final_layernorm.weight", "output_layer.weight"};
    for (const std::string layer : {"0", "1", "2", "3"}) {
        const std::string prefix = "decoder.layers." + layer + ".";
        for (const char* name :
             {"input_layernorm.weight", "self_attention.linear_q_down_proj.weight",
              "self_attention.linear_q_up_proj.weight",
              "self_attention.linear_q_up_proj.layer_norm_weight",
              "self_attention.linear_kv_down_proj.weight",
              "self_attention.linear_kv_up_proj.weight",
              "self_attention.linear_kv_up_proj.layer_norm_weight",
              "self_attention.linear_proj.weight"})
            expected.insert(prefix + name);
        if (layer != "3")
            for (const char* name : {"mlp.linear_fc1.layer_norm_weight", "mlp.linear_fc1.weight",
                                     "mlp.linear_fc2.weight"})
                expected.insert(prefix + name);
    }
    for (const char* name :
         {"pre_mlp_layernorm.weight", "mlp.router.weight", "mlp.router.expert_bias",
          "mlp.experts.linear_fc1.weight0", "mlp.experts.linear_fc2.weight0",
          "mlp.shared_experts.linear_fc1.weight", "mlp.shared_experts.linear_fc2.weight"})
        expected.insert(std::string("decoder.layers.3.") + name);
    EXPECT_EQ(all, expected);

    const auto of = [&](const std::string& name) {
        return shape(layout, 1, "decoder.layers.3." + name);
    };
    EXPECT_EQ(of("self_attention.linear_q_down_proj.weight"), (Sizes{1536, 7168}));
    EXPECT_EQ(of("self_attention.linear_q_up_proj.weight"), (Sizes{128 * 192 / 2, 1536}));
    EXPECT_EQ(of("self_attention.linear_kv_down_proj.weight"), (Sizes{576, 7168}));
    EXPECT_EQ(of("self_attention.linear_kv_up_proj.weight"), (Sizes{128 * 256 / 2, 512}));
    EXPECT_EQ(of("self_attention.linear_proj.weight"), (Sizes{7168, 128 * 128 / 2}));
    EXPECT_EQ(of("mlp.router.weight"), (Sizes{256, 7168}));
    EXPECT_EQ(of("mlp.router.expert_bias"), (Sizes{256}));
    EXPECT_EQ(find(layout, 1, "decoder.layers.3.mlp.router.expert_bias")->dtype, DType::F32);
    EXPECT_EQ(of("mlp.experts.linear_fc1.weight1"), (Sizes{4096, 7168}));
    EXPECT_EQ(of("mlp.experts.linear_fc2.weight1"), (Sizes{7168, 2048}));
    EXPECT_EQ(of("mlp.shared_experts.linear_fc1.weight"), (Sizes{2048, 7168}));
    EXPECT_EQ(shape(layout, 1, "decoder.layers.2.mlp.linear_fc1.weight"), (Sizes{18432, 7168}));
}

TEST(MegatronLayout, has_one_query_projection_without_q_lora_rank) {
    const Layout layout =
        make_megatron_layout(make_model(truncated(moonlight(), 1)), parse_trainer("tp=8"));
    const std::string prefix = "decoder.layers.0.self_attention.";
    EXPECT_EQ(shape(layout, 0, prefix + "linear_q_proj.weight"), (Sizes{16 * 192 / 8, 2048}));
    EXPECT_EQ(find(layout, 0, prefix + "linear_q_down_proj.weight"), nullptr);
}

TEST(MegatronLayout, names_a_grouped_attention_layer) {
    const Layout layout =
        make_megatron_layout(make_model(truncated(glm_4_5(), 4)), parse_trainer("tp=8,ep=8,etp=1"));
    const std::string prefix = "decoder.layers.3.";
    std::set<std::string> layer;
    for (const std::string& name : names(layout, 0))
        if (name.starts_with(prefix) && !name.starts_with(prefix + "mlp."))
            layer.insert(name.substr(prefix.size()));
    EXPECT_EQ(layer, (std::set<std::string>{
                         "self_attention.linear_qkv.layer_norm_weight",
                         "self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias",
                         "self_attention.q_layernorm.weight", "self_attention.k_layernorm.weight",
                         "self_attention.linear_proj.weight", "pre_mlp_layernorm.weight"}));
    EXPECT_EQ(shape(layout, 5, prefix + "self_attention.linear_qkv.weight"),
              (Sizes{14 * 128, 5120}));
    EXPECT_EQ(shape(layout, 5, prefix + "self_attention.linear_qkv.bias"), (Sizes{14 * 128}));
    EXPECT_EQ(shape(layout, 5, prefix + "self_attention.linear_proj.weight"),
              (Sizes{5120, 12 * 128}));
}

TEST(MegatronLayout, interleaves_query_groups) {
    const ModelSpec model = make_model(truncated(qwen3_4b(), 1));  // 32 heads in 8 groups of 4
    const Layout layout = make_megatron_layout(model, parse_trainer("tp=4"));
    const Parameter& qkv = *find(layout, 1, "decoder.layers.0.self_attention.linear_qkv.weight");
    EXPECT_EQ(qkv.shape, (Shape{{12 * 128, 2560, 0}, 2}));
    const Bytes row = 2560 * 2;
    const TensorId q = model.id("model.layers.0.self_attn.q_proj.weight"), k = q + 1, v = q + 2;
    const auto piece = [&](TensorId tensor, Interval heads, Bytes head) {
        return Piece{
            tensor, {{heads.begin * 128, heads.end * 128}, {0, 2560}}, head * 128 * row, row};
    };
    EXPECT_EQ(qkv.pieces, (std::vector<Piece>{piece(q, {8, 12}, 0), piece(k, {2, 3}, 4),
                                              piece(v, {2, 3}, 5), piece(q, {12, 16}, 6),
                                              piece(k, {3, 4}, 10), piece(v, {3, 4}, 11)}));
}

TEST(MegatronLayout, cuts_inside_a_query_group_when_tp_is_larger_than_their_number) {
    const ModelSpec model = make_model(truncated(qwen3_30b(), 1));  // 4 groups of 8 heads
    const Layout layout = make_megatron_layout(model, parse_trainer("tp=16,etp=1"));
    const TensorId q = model.id("model.layers.0.self_attn.q_proj.weight"), k = q + 1, v = q + 2;
    // A group is 8 q, k, v = 1280 rows over 4 ranks of 320 = 2.5 heads each.
    const auto at = [&](Rank rank) {
        return find(layout, rank, "decoder.layers.0.self_attention.linear_qkv.weight")->pieces;
    };
    const Bytes row = 2048 * 2;
    EXPECT_EQ(at(0), (std::vector<Piece>{{q, {{0, 320}, {0, 2048}}, 0, row}}));
    EXPECT_EQ(at(3), (std::vector<Piece>{{q, {{960, 1024}, {0, 2048}}, 0, row},
                                         {k, {{0, 128}, {0, 2048}}, 64 * row, row},
                                         {v, {{0, 128}, {0, 2048}}, 192 * row, row}}));
    EXPECT_EQ(at(4), (std::vector<Piece>{{q, {{1024, 1344}, {0, 2048}}, 0, row}}));
}

TEST(MegatronLayout, puts_experts_and_dense_layers_on_two_grids) {
    // world 16: dense tp 2 x cp 2 x dp 2 x pp 2, experts etp 1 x ep 4 x edp 2 x pp 2.
    const Layout layout = make_megatron_layout(make_model(truncated(qwen3_30b(), 4)),
                                               parse_trainer("tp=2,cp=2,dp=2,pp=2,ep=4,etp=1"));
    EXPECT_EQ(layout.world_size(), 16);
    EXPECT_EQ(holders(layout, 3, "decoder.layers.0.self_attention.linear_proj.weight"),
              (Ranks{1, 3, 5, 7}));
    EXPECT_EQ(holders(layout, 8, "decoder.layers.2.self_attention.linear_proj.weight"),
              (Ranks{8, 10, 12, 14}));
    EXPECT_EQ(holders(layout, 0, "decoder.layers.1.mlp.router.weight"),
              (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(holders(layout, 2, "decoder.layers.1.mlp.experts.linear_fc1.weight64"),
              (Ranks{2, 6}));
    EXPECT_EQ(find(layout, 2, "decoder.layers.1.mlp.experts.linear_fc1.weight63"), nullptr);
    EXPECT_EQ(holders(layout, 11, "decoder.layers.3.mlp.experts.linear_fc2.weight127"),
              (Ranks{11, 15}));
    EXPECT_EQ(find(layout, 8, "embedding.word_embeddings.weight"), nullptr);
    EXPECT_EQ(find(layout, 0, "output_layer.weight"), nullptr);
    EXPECT_EQ(holders(layout, 9, "output_layer.weight"), (Ranks{9, 11, 13, 15}));
}

TEST(MegatronLayout, cuts_experts_over_etp_but_shared_experts_over_tp) {
    const Layout layout = make_megatron_layout(make_model(truncated(moonlight(), 2)),
                                               parse_trainer("tp=4,ep=2,etp=2"));
    EXPECT_EQ(layout.world_size(), 4);
    const std::string mlp = "decoder.layers.1.mlp.";
    EXPECT_EQ(shape(layout, 1, mlp + "experts.linear_fc1.weight0"), (Sizes{1408, 2048}));
    EXPECT_EQ(find(layout, 1, mlp + "experts.linear_fc1.weight0")->pieces[1].box.rows,
              (Interval{704, 1408}));
    EXPECT_EQ(holders(layout, 3, mlp + "experts.linear_fc2.weight32"), (Ranks{3}));
    EXPECT_EQ(shape(layout, 3, mlp + "shared_experts.linear_fc1.weight"), (Sizes{1408, 2048}));
    EXPECT_EQ(shape(layout, 3, mlp + "shared_experts.linear_fc2.weight"), (Sizes{2048, 704}));
}

TEST(MegatronLayout, copies_a_tied_embedding_to_the_last_stage) {
    const ModelSpec model = make_model(truncated(qwen3_4b(), 2));
    const Layout one = make_megatron_layout(model, parse_trainer("tp=2"));
    EXPECT_EQ(find(one, 0, "output_layer.weight"), nullptr);
    const Layout two = make_megatron_layout(model, parse_trainer("tp=2,pp=2"));
    EXPECT_EQ(holders(two, 3, "output_layer.weight"), (Ranks{3}));
    EXPECT_EQ(find(two, 3, "output_layer.weight")->pieces,
              find(two, 1, "embedding.word_embeddings.weight")->pieces);
    EXPECT_EQ(find(two, 3, "embedding.word_embeddings.weight"), nullptr);
}

TEST(MegatronLayout, puts_mtp_with_its_embedding_on_the_last_stage) {
    model::Architecture a = truncated(glm_4_5_air(), 2);
    a.mtp_layers = 1;
    const Layout layout =
        make_megatron_layout(make_model(a), parse_trainer("tp=2,pp=2,ep=2,etp=1"));
    EXPECT_EQ(holders(layout, 0, "embedding.word_embeddings.weight"), (Ranks{0, 2}));
    EXPECT_EQ(shape(layout, 3, "mtp.layers.0.eh_proj.weight"), (Sizes{2048, 8192}));
    EXPECT_EQ(holders(layout, 3, "mtp.layers.0.enorm.weight"), (Ranks{2, 3}));
    EXPECT_EQ(holders(layout, 3, "mtp.layers.0.hnorm.weight"), (Ranks{2, 3}));
    EXPECT_EQ(holders(layout, 3, "mtp.layers.0.final_layernorm.weight"), (Ranks{2, 3}));
    EXPECT_EQ(holders(layout, 3, "mtp.layers.0.transformer_layer.mlp.experts.linear_fc1.weight64"),
              (Ranks{3}));
    EXPECT_EQ(shape(layout, 2, "mtp.layers.0.transformer_layer.self_attention.linear_qkv.bias"),
              (Sizes{56 * 128}));
    EXPECT_EQ(find(layout, 0, "mtp.layers.0.enorm.weight"), nullptr);
}

TEST(MegatronLayout, keeps_the_dtype_of_the_model_but_float32_expert_bias) {
    const Layout layout = make_megatron_layout(make_model(truncated(moonlight(), 2), DType::F8E4M3),
                                               parse_trainer("tp=2,etp=1"));
    EXPECT_EQ(find(layout, 0, "decoder.layers.1.mlp.linear_fc1.weight"), nullptr);
    EXPECT_EQ(find(layout, 0, "decoder.layers.0.mlp.linear_fc1.weight")->bytes(),
              11264U * 2048 * 1);
    EXPECT_EQ(find(layout, 0, "decoder.layers.1.mlp.router.expert_bias")->bytes(), 64U * 4);
}

TEST(MegatronLayout, describes_itself_canonically) {
    const Layout layout = make_megatron_layout(make_model(truncated(moonlight(), 2)),
                                               parse_trainer("pp=2,tp=2,etp=2"));
    EXPECT_EQ(layout.description(), "tp=2,pp=2");
    EXPECT_EQ(layout.side(), Side::Trainer);
    ASSERT_EQ(layout.engine_begins().size(), 1U);
    EXPECT_EQ(layout.engine_begins()[0], 0);
}

}  // namespace
}  // namespace weightlift::layout
