// The logical tensors of each family, name by name.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "weightlift/model/config.hpp"

#include "unit/model/config_text.hpp"

namespace weightlift::model {
namespace {

/// "name [rows, columns]" or "name [columns]", and the dtype where it is not bf16.
std::string shown(const TensorSpec& tensor) {
    std::string text = tensor.dimensions == 1
                           ? fmt::format("{} [{}]", tensor.name, tensor.columns)
                           : fmt::format("{} [{}, {}]", tensor.name, tensor.rows, tensor.columns);
    if (tensor.dtype != DType::BF16) text.append(" ").append(to_string(tensor.dtype));
    return text;
}

std::vector<std::string> tensors_of(const ConfigText& config, ConfigOptions options = {}) {
    std::vector<std::string> lines;
    const ParsedModel model = parse_config(config.text(), options);
    for (const TensorSpec& tensor : model.spec.tensors()) lines.push_back(shown(tensor));
    return lines;
}

/// Those whose name begins with `prefix`, in order, with the prefix cut off.
std::vector<std::string> below(const std::vector<std::string>& lines, const std::string& prefix) {
    std::vector<std::string> cut;
    for (const std::string& line : lines)
        if (line.starts_with(prefix)) cut.push_back(line.substr(prefix.size()));
    return cut;
}

using Lines = std::vector<std::string>;

const Lines kLatentAttention{
    "q_a_proj.weight [20, 32]",   "q_a_layernorm.weight [20]",
    "q_b_proj.weight [24, 20]",   "kv_a_proj_with_mqa.weight [20, 32]",
    "kv_a_layernorm.weight [16]", "kv_b_proj.weight [28, 16]",
    "o_proj.weight [32, 12]",
};

TEST(Tensors, are_in_checkpoint_order) {
    const Lines expected{
        "model.embed_tokens.weight [100, 32]",
        "model.layers.0.input_layernorm.weight [32]",
        "model.layers.0.self_attn.q_proj.weight [40, 32]",
        "model.layers.0.self_attn.k_proj.weight [20, 32]",
        "model.layers.0.self_attn.v_proj.weight [20, 32]",
        "model.layers.0.self_attn.q_norm.weight [10]",
        "model.layers.0.self_attn.k_norm.weight [10]",
        "model.layers.0.self_attn.o_proj.weight [32, 40]",
        "model.layers.0.post_attention_layernorm.weight [32]",
        "model.layers.0.mlp.gate_proj.weight [48, 32]",
        "model.layers.0.mlp.up_proj.weight [48, 32]",
        "model.layers.0.mlp.down_proj.weight [32, 48]",
        "model.norm.weight [32]",
        "lm_head.weight [100, 32]",
    };
    EXPECT_EQ(tensors_of(small_qwen(), {.layers = 1}), expected);
}

TEST(Tensors, of_a_tied_model_have_no_head) {
    const Lines tied = tensors_of(small_qwen().with("tie_word_embeddings", "true"));
    Lines expected = tensors_of(small_qwen());
    expected.pop_back();
    EXPECT_EQ(tied, expected);
    EXPECT_EQ(tied.back(), "model.norm.weight [32]");
}

TEST(Tensors, of_deepseek_attention_with_a_q_lora_rank) {
    EXPECT_EQ(below(tensors_of(small_deepseek()), "model.layers.2.self_attn."), kLatentAttention);
}

TEST(Tensors, of_deepseek_attention_without_a_q_lora_rank) {
    Lines expected(kLatentAttention.begin() + 3, kLatentAttention.end());
    expected.insert(expected.begin(), "q_proj.weight [24, 32]");
    EXPECT_EQ(below(tensors_of(small_deepseek().with("q_lora_rank", "null")),
                    "model.layers.2.self_attn."),
              expected);
}

TEST(Tensors, of_deepseek_mlps_are_dense_first_and_experts_later) {
    const Lines tensors = tensors_of(small_deepseek());
    const Lines dense{"gate_proj.weight [48, 32]", "up_proj.weight [48, 32]",
                      "down_proj.weight [32, 48]"};
    const Lines experts{
        "gate.weight [4, 32]",
        "gate.e_score_correction_bias [4] fp32",
        "experts.0.gate_proj.weight [12, 32]",
        "experts.0.up_proj.weight [12, 32]",
        "experts.0.down_proj.weight [32, 12]",
        "experts.1.gate_proj.weight [12, 32]",
        "experts.1.up_proj.weight [12, 32]",
        "experts.1.down_proj.weight [32, 12]",
        "experts.2.gate_proj.weight [12, 32]",
        "experts.2.up_proj.weight [12, 32]",
        "experts.2.down_proj.weight [32, 12]",
        "experts.3.gate_proj.weight [12, 32]",
        "experts.3.up_proj.weight [12, 32]",
        "experts.3.down_proj.weight [32, 12]",
        "shared_experts.gate_proj.weight [24, 32]",
        "shared_experts.up_proj.weight [24, 32]",
        "shared_experts.down_proj.weight [32, 24]",
    };
    EXPECT_EQ(below(tensors, "model.layers.0.mlp."), dense);
    EXPECT_EQ(below(tensors, "model.layers.1.mlp."), experts);
    EXPECT_EQ(below(tensors, "model.layers.2.mlp."), experts);
    EXPECT_TRUE(below(tensors, "model.layers.3.").empty());
}

TEST(Tensors, of_mtp_layers_come_last_and_repeat_neither_embedding_nor_head) {
    const Lines without = tensors_of(small_deepseek());
    const Lines with = tensors_of(small_deepseek(), {.with_mtp = true});
    const Lines mtp = below(with, "model.layers.3.");

    Lines expected{"enorm.weight [32]", "hnorm.weight [32]", "eh_proj.weight [32, 64]"};
    const Lines layer = below(without, "model.layers.2.");
    expected.insert(expected.end(), layer.begin(), layer.end());
    expected.emplace_back("shared_head.norm.weight [32]");
    EXPECT_EQ(mtp, expected);

    ASSERT_EQ(with.size(), without.size() + mtp.size());
    EXPECT_TRUE(std::equal(without.begin(), without.end(), with.begin()));
}

TEST(Tensors, of_an_mtp_layer_behind_dense_layers_only_are_those_of_experts) {
    const Lines tensors = tensors_of(small_deepseek(), {.layers = 1, .with_mtp = true});
    EXPECT_FALSE(below(tensors, "model.layers.1.eh_proj.").empty());
    EXPECT_FALSE(below(tensors, "model.layers.1.mlp.experts.3.").empty());
    EXPECT_TRUE(below(tensors, "model.layers.0.mlp.experts.").empty());
}

TEST(Tensors, of_two_mtp_layers_are_numbered_on) {
    const Lines tensors =
        tensors_of(small_deepseek().with("num_nextn_predict_layers", "2"), {.with_mtp = true});
    EXPECT_EQ(below(tensors, "model.layers.3.").size(), below(tensors, "model.layers.4.").size());
    EXPECT_EQ(tensors.back(), "model.layers.4.shared_head.norm.weight [32]");
}

TEST(Tensors, of_qwen_experts_have_neither_shared_experts_nor_bias) {
    const Lines mlp = below(tensors_of(small_qwen_moe()), "model.layers.0.mlp.");
    ASSERT_EQ(mlp.size(), 13U);
    EXPECT_EQ(mlp.front(), "gate.weight [4, 32]");
    EXPECT_EQ(mlp[1], "experts.0.gate_proj.weight [12, 32]");
    EXPECT_EQ(mlp.back(), "experts.3.down_proj.weight [32, 12]");
}

TEST(Tensors, of_glm_attention_have_biases_and_optional_norms) {
    const Lines expected{
        "q_proj.weight [40, 32]", "k_proj.weight [20, 32]", "v_proj.weight [20, 32]",
        "q_proj.bias [40]",       "k_proj.bias [20]",       "v_proj.bias [20]",
        "q_norm.weight [10]",     "k_norm.weight [10]",     "o_proj.weight [32, 40]",
    };
    const std::string prefix = "model.layers.1.self_attn.";
    EXPECT_EQ(below(tensors_of(small_glm()), prefix), expected);

    Lines without_norms = expected;
    without_norms.erase(without_norms.begin() + 6, without_norms.begin() + 8);
    EXPECT_EQ(below(tensors_of(small_glm().with("use_qk_norm", "false")), prefix), without_norms);
    EXPECT_EQ(below(tensors_of(small_glm().without("use_qk_norm")), prefix), without_norms);

    Lines without_bias = expected;
    without_bias.erase(without_bias.begin() + 3, without_bias.begin() + 6);
    EXPECT_EQ(below(tensors_of(small_glm().with("attention_bias", "false")), prefix), without_bias);
}

TEST(Tensors, of_glm_experts_always_have_the_float32_bias) {
    const Lines tensors = tensors_of(small_glm(), {.dtype = DType::F16, .with_mtp = true});
    for (const char* layer : {"1", "2", "3"})
        EXPECT_EQ(below(tensors, fmt::format("model.layers.{}.mlp.gate.", layer)),
                  (Lines{"weight [4, 32] fp16", "e_score_correction_bias [4] fp32"}))
            << layer;
}

}  // namespace
}  // namespace weightlift::model
