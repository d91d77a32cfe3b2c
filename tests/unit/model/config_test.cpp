// What parse_config accepts, ignores and says about it.
#include "weightlift/model/config.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unit/model/config_text.hpp"

namespace weightlift::model {
namespace {

ParsedModel parse(const ConfigText& config, const ConfigOptions& options = {}) {
    return parse_config(config.text(), options);
}

using Notes = std::vector<std::string>;

TEST(Config, gives_the_architecture_numbers) {
    const ParsedModel model = parse(small_deepseek(), {.name = "small"});
    EXPECT_EQ(model.spec.name(), "small");
    const Architecture& a = *model.spec.architecture();
    EXPECT_EQ(a.model_type, "deepseek_v3");
    EXPECT_EQ(a.hidden_size, 32U);
    EXPECT_EQ(a.layers, 3U);
    EXPECT_EQ(a.dense_layers, 1U);
    EXPECT_EQ(a.heads, 2U);
    EXPECT_EQ(a.intermediate_size, 48U);
    EXPECT_EQ(a.vocab_size, 100U);
    EXPECT_EQ(a.mtp_layers, 0U);
    EXPECT_FALSE(a.tied_embeddings);
    EXPECT_EQ(a.latent->q_lora_rank, 20U);
    EXPECT_EQ(a.latent->kv_lora_rank, 16U);
    EXPECT_EQ(a.latent->qk_nope_head_dim, 8U);
    EXPECT_EQ(a.latent->qk_rope_head_dim, 4U);
    EXPECT_EQ(a.latent->v_head_dim, 6U);
    EXPECT_EQ(a.experts->routed, 4U);
    EXPECT_EQ(a.experts->shared, 2U);
    EXPECT_EQ(a.experts->intermediate_size, 12U);
    EXPECT_TRUE(a.experts->has_score_bias);
}

TEST(Config, knows_every_family) {
    EXPECT_EQ(parse(small_deepseek().with("model_type", "\"deepseek_v2\""))
                  .spec.architecture()
                  ->model_type,
              "deepseek_v2");
    EXPECT_EQ(
        parse(small_deepseek().with("model_type", "\"kimi_k2\"")).spec.architecture()->model_type,
        "kimi_k2");
    const ParsedModel moe = parse(small_qwen_moe());
    EXPECT_EQ(moe.spec.architecture()->dense_layers, 0U);
    EXPECT_EQ(moe.spec.architecture()->experts->shared, 0U);
    EXPECT_TRUE(moe.spec.architecture()->grouped->has_qk_norm);
    const ParsedModel glm = parse(small_glm());
    EXPECT_EQ(glm.spec.architecture()->grouped->head_dim, 10U);
    EXPECT_EQ(glm.spec.architecture()->grouped->kv_heads, 2U);
    EXPECT_TRUE(glm.spec.architecture()->grouped->has_bias);
}

TEST(Config, has_a_score_bias_iff_the_top_k_method_asks_for_it) {
    const ParsedModel greedy = parse(small_deepseek().with("topk_method", "\"greedy\""));
    EXPECT_FALSE(greedy.spec.architecture()->experts->has_score_bias);
    EXPECT_TRUE(greedy.notes.empty());
    EXPECT_EQ(greedy.spec.parameter_count() + 2 * 4,
              parse(small_deepseek()).spec.parameter_count());
    // Neither does the field make a difference to the other families.
    EXPECT_FALSE(parse(small_qwen_moe().with("topk_method", "\"noaux_tc\""))
                     .spec.architecture()
                     ->experts->has_score_bias);
    EXPECT_TRUE(parse(small_glm()).spec.architecture()->experts->has_score_bias);
}

TEST(Config, takes_null_shared_experts_for_none) {
    EXPECT_EQ(parse(small_deepseek().with("n_shared_experts", "null"))
                  .spec.architecture()
                  ->experts->shared,
              0U);
    EXPECT_EQ(
        parse(small_deepseek().with("n_shared_experts", "0")).spec.architecture()->experts->shared,
        0U);
}

TEST(Config, keeps_the_first_layers) {
    const ParsedModel two = parse(small_deepseek(), {.layers = 2});
    EXPECT_EQ(two.spec.architecture()->layers, 2U);
    EXPECT_EQ(two.spec.architecture()->dense_layers, 1U);
    EXPECT_TRUE(two.spec.find("model.layers.1.mlp.gate.weight"));
    EXPECT_FALSE(two.spec.find("model.layers.2.input_layernorm.weight"));
    EXPECT_TRUE(two.spec.find("lm_head.weight"));

    const ParsedModel whole = parse(small_deepseek(), {.layers = 3});
    EXPECT_EQ(whole.spec.tensors(), parse(small_deepseek()).spec.tensors());
}

TEST(Config, counts_no_more_dense_layers_than_are_kept) {
    const ConfigText config = small_deepseek().with("first_k_dense_replace", "2");
    EXPECT_EQ(parse(config, {.layers = 1}).spec.architecture()->dense_layers, 1U);
    EXPECT_EQ(parse(config, {.layers = 3}).spec.architecture()->dense_layers, 2U);
}

TEST(Config, needs_no_dense_size_where_no_layer_is_dense) {
    const ConfigText config =
        small_deepseek().with("first_k_dense_replace", "0").without("intermediate_size");
    EXPECT_EQ(parse(config).spec.architecture()->intermediate_size, 0U);
}

TEST(Config, takes_the_dtype_from_either_field) {
    const auto dtype_of = [](const ConfigText& config) {
        return parse(config).spec.tensor(0).dtype;
    };
    EXPECT_EQ(dtype_of(small_qwen().with("torch_dtype", "\"float16\"")), DType::F16);
    EXPECT_EQ(dtype_of(small_qwen().without("torch_dtype").with("dtype", "\"float32\"")),
              DType::F32);
    EXPECT_EQ(dtype_of(small_qwen().with("dtype", "\"bfloat16\"")), DType::BF16);
}

TEST(Config, lets_the_option_override_the_dtype_but_not_that_of_float32_buffers) {
    const ParsedModel model =
        parse(small_deepseek().with("torch_dtype", "\"auto\""), {.dtype = DType::F8E4M3});
    for (const TensorSpec& tensor : model.spec.tensors())
        EXPECT_EQ(tensor.dtype,
                  tensor.name.ends_with("e_score_correction_bias") ? DType::F32 : DType::F8E4M3)
            << tensor.name;
    EXPECT_EQ(model.spec.bytes(), model.spec.parameter_count() + 3 * (2 * 4));
}

TEST(Config, ignores_fields_that_shape_no_tensor) {
    const ParsedModel model = parse(small_deepseek()
                                        .with("num_key_value_heads", "\"many\"")
                                        .with("rope_scaling", "{\"factor\": 40}")
                                        .with("head_dim", "-1"));
    EXPECT_EQ(model.spec.tensors(), parse(small_deepseek()).spec.tensors());
    EXPECT_TRUE(model.notes.empty());
}

TEST(Config, notes_what_it_ignores_or_assumes) {
    EXPECT_EQ(parse(small_deepseek().with("quantization_config", "{\"quant_method\": \"fp8\"}"),
                    {.dtype = DType::F16})
                  .notes,
              Notes{"quantization_config is ignored: weights are taken as fp16."});
    EXPECT_EQ(parse(small_deepseek().with("quantization_config", "null")).notes, Notes{});
    EXPECT_EQ(parse(small_qwen().without("torch_dtype")).notes,
              Notes{"Neither torch_dtype nor dtype is given: bf16 is assumed."});
    EXPECT_EQ(parse(small_deepseek().without("topk_method")).notes,
              Notes{"topk_method is missing: no e_score_correction_bias."});
    EXPECT_EQ(parse(small_deepseek().without("q_lora_rank")).notes,
              Notes{"q_lora_rank is missing and taken as null: one full q_proj."});
}

TEST(Config, takes_missing_flags_for_false) {
    const ParsedModel qwen = parse(small_qwen().without("tie_word_embeddings"));
    EXPECT_TRUE(qwen.spec.find("lm_head.weight"));
    const ParsedModel glm = parse(small_glm().without("attention_bias").without("use_qk_norm"));
    EXPECT_FALSE(glm.spec.architecture()->grouped->has_bias);
    EXPECT_FALSE(glm.spec.architecture()->grouped->has_qk_norm);
}

}  // namespace
}  // namespace weightlift::model
