// Bad input ends in one sentence that names the field, its value and the rule.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "weightlift/model/config.hpp"

#include "unit/model/config_text.hpp"

namespace weightlift::model {
namespace {

std::string error_of(const std::string& text, ConfigOptions options = {}) {
    options.name = "m";
    try {
        (void)parse_config(text, options);
    } catch (const ConfigError& error) {
        EXPECT_EQ(error.code(), ExitCode::Usage);
        return error.what();
    }
    return "accepted";
}

const std::string kSizeRule = ", must be an integer from 1 to 2^63-1";

TEST(BadConfig, is_not_json) {
    struct Row {
        const char* name;
        std::string text;
        const char* error;
    };
    const std::vector<Row> rows{
        {"empty", "", "m: the config is not JSON, it ends too early at line 1, column 1"},
        {"truncated", "{\"hidden_size\": 32,\n \"vocab_size\": ",
         "m: the config is not JSON, it ends too early at line 2, column 16"},
        {"truncated in a name", "{\"hidden_si",
         "m: the config is not JSON, it ends too early at line 1, column 12"},
        {"a bare word", "{\n\n  \"a\": hello}",
         "m: the config is not JSON, unexpected text at line 3, column 8"},
        {"trailing text", "{} {}",
         "m: the config is not JSON, unexpected text at line 1, column 4"},
        {"a huge number", "{\"hidden_size\": 1e400}",
         "m: the config is not JSON, a number in it is larger than any double"},
        {"invalid UTF-8", "{\"a\": \"\xff\"}",
         "m: the config is not JSON, unexpected text at line 1, column 8"},
        {"a list", "[1, 2]", "m: the config is a list, must be a JSON object"},
        {"a number", "7", "m: the config is 7, must be a JSON object"},
    };
    for (const Row& row : rows) EXPECT_EQ(error_of(row.text), row.error) << row.name;
}

TEST(BadConfig, is_any_config_cut_short) {
    const std::string whole = small_deepseek().text();
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_EQ(error_of(whole.substr(0, size)),
                  fmt::format("m: the config is not JSON, it ends too early at line 1, column {}",
                              size + 1));
}

TEST(BadConfig, survives_deep_nesting) {
    const std::string deep(200'000, '[');
    EXPECT_EQ(error_of(deep),
              "m: the config is not JSON, it ends too early at line 1, column 200001");
    const std::string closed = deep + std::string(200'000, ']');
    EXPECT_EQ(error_of(small_qwen().with("hidden_size", closed).text()),
              "m: hidden_size is a list" + kSizeRule);
    EXPECT_EQ(error_of(small_qwen_moe().with("mlp_only_layers", closed).text()),
              "m: mlp_only_layers is a list, only an empty list is supported: every layer must "
              "have experts");
}

TEST(BadConfig, has_no_supported_model_type) {
    const std::string rule =
        "must be one of deepseek_v2, deepseek_v3, kimi_k2, qwen3, qwen3_moe, glm4_moe";
    EXPECT_EQ(error_of("{}"), "m: model_type is missing, must be a string");
    EXPECT_EQ(error_of("{\"model_type\": 3}"), "m: model_type is 3, must be a string");
    EXPECT_EQ(error_of("{\"model_type\": \"llama\"}"), "m: model_type is \"llama\", " + rule);
    EXPECT_EQ(error_of("{\"model_type\": \"" + std::string(1000, 'x') + "\"}"),
              "m: model_type is \"" + std::string(59, 'x') + "..., " + rule);
}

TEST(BadConfig, has_a_size_that_is_none) {
    struct Family {
        ConfigText config;
        std::vector<const char*> sizes;
    };
    const std::vector<Family> families{
        {small_deepseek(),
         {"hidden_size", "intermediate_size", "moe_intermediate_size", "num_hidden_layers",
          "num_attention_heads", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
          "v_head_dim", "n_routed_experts", "vocab_size"}},
        {small_qwen(),
         {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
          "num_key_value_heads", "head_dim", "vocab_size"}},
        {small_qwen_moe(), {"num_experts", "moe_intermediate_size", "head_dim"}},
        {small_glm(), {"n_routed_experts", "moe_intermediate_size", "intermediate_size"}},
    };
    const std::vector<std::string> values{
        "0", "-1", "1.5", "64.0", "1e3", "\"64\"", "true", "null", "9223372036854775808",
    };
    for (const Family& family : families) {
        for (const char* size : family.sizes) {
            EXPECT_EQ(error_of(family.config.without(size).text()),
                      fmt::format("m: {} is missing{}", size, kSizeRule));
            for (const std::string& value : values) {
                const std::string shown = value == "1e3" ? "1000.0" : value;
                EXPECT_EQ(error_of(family.config.with(size, value).text()),
                          fmt::format("m: {} is {}{}", size, shown, kSizeRule));
            }
            EXPECT_EQ(error_of(family.config.with(size, "18446744073709551616").text()),
                      fmt::format("m: {} is 1.8446744073709552e+19{}", size, kSizeRule));
            EXPECT_EQ(error_of(family.config.with(size, "[4]").text()),
                      fmt::format("m: {} is a list{}", size, kSizeRule));
        }
    }
}

TEST(BadConfig, requires_exactly_the_fields_that_shape_a_tensor) {
    // The others of the small configs have a documented meaning when they are missing.
    const std::vector<std::string> optional{
        "q_lora_rank",         "topk_method",         "num_nextn_predict_layers",
        "tie_word_embeddings", "torch_dtype",         "use_qk_norm",
        "attention_bias",      "decoder_sparse_step", "mlp_only_layers"};
    for (const ConfigText& config :
         {small_deepseek(), small_qwen(), small_qwen_moe(), small_glm()}) {
        for (const auto& [field, value] : config.fields()) {
            const std::string error = error_of(config.without(field).text());
            if (std::find(optional.begin(), optional.end(), field) != optional.end())
                EXPECT_EQ(error, "accepted") << field;
            else
                EXPECT_TRUE(error.starts_with("m: " + field + " is missing, must be")) << error;
        }
    }
}

TEST(BadConfig, has_another_bad_field) {
    struct Row {
        const char* name;
        ConfigText config;
        std::string error;
    };
    const std::vector<Row> rows{
        {"q_lora_rank 0", small_deepseek().with("q_lora_rank", "0"),
         "m: q_lora_rank is 0" + kSizeRule},
        {"dense layers", small_deepseek().with("first_k_dense_replace", "-1"),
         "m: first_k_dense_replace is -1, must be an integer from 0 to 2^63-1"},
        {"shared experts", small_glm().with("n_shared_experts", "1.0"),
         "m: n_shared_experts is 1.0, must be an integer from 0 to 2^63-1"},
        {"a flag", small_qwen().with("tie_word_embeddings", "1"),
         "m: tie_word_embeddings is 1, must be true or false"},
        {"top-k method", small_deepseek().with("topk_method", "4"),
         "m: topk_method is 4, must be a string"},
        {"kv heads", small_qwen().with("num_key_value_heads", "3"),
         "m: num_key_value_heads is 3, must divide num_attention_heads 4"},
        {"dtype", small_qwen().with("torch_dtype", "\"int8\""),
         "m: torch_dtype is \"int8\", must be bfloat16, float16, float32 or float8_e4m3fn"},
        {"dtype no string", small_qwen().with("torch_dtype", "16"),
         "m: torch_dtype is 16, must be a string"},
        {"two dtypes", small_qwen().with("dtype", "\"float16\""),
         "m: dtype is \"float16\", must be the same as torch_dtype"},
        {"MLA bias", small_deepseek().with("attention_bias", "true"),
         "m: attention_bias is true, only false is supported"},
        {"Qwen bias", small_qwen().with("attention_bias", "true"),
         "m: attention_bias is true, only false is supported"},
        {"moe_layer_freq", small_deepseek().with("moe_layer_freq", "2"),
         "m: moe_layer_freq is 2, only 1 is supported: every layer after the dense ones must have "
         "experts"},
        {"decoder_sparse_step", small_qwen_moe().with("decoder_sparse_step", "2"),
         "m: decoder_sparse_step is 2, only 1 is supported: every layer must have experts"},
        {"mlp_only_layers", small_qwen_moe().with("mlp_only_layers", "[0]"),
         "m: mlp_only_layers is a list, only an empty list is supported: every layer must have "
         "experts"},
    };
    for (const Row& row : rows) EXPECT_EQ(error_of(row.config.text()), row.error) << row.name;
}

TEST(BadConfig, cannot_give_the_layers_asked_for) {
    EXPECT_EQ(error_of(small_qwen().text(), {.layers = 3}),
              "m: layers is 3, must be from 1 to num_hidden_layers 2");
    EXPECT_EQ(error_of(small_qwen().text(), {.layers = 0}),
              "m: layers is 0, must be from 1 to num_hidden_layers 2");
}

TEST(BadConfig, cannot_give_mtp_layers) {
    const std::string none =
        "m: mtp is asked for, but the model has no multi-token-prediction "
        "layers ";
    const ConfigOptions with_mtp{.with_mtp = true};
    EXPECT_EQ(error_of(small_deepseek().with("num_nextn_predict_layers", "0").text(), with_mtp),
              none + "(num_nextn_predict_layers is 0)");
    EXPECT_EQ(error_of(small_deepseek().without("num_nextn_predict_layers").text(), with_mtp),
              none + "(no num_nextn_predict_layers)");
    EXPECT_EQ(error_of(small_qwen().text(), with_mtp), none + "(no num_nextn_predict_layers)");
    EXPECT_EQ(error_of(small_deepseek().with("num_nextn_predict_layers", "-1").text(), with_mtp),
              "m: num_nextn_predict_layers is -1, must be an integer from 0 to 2^63-1");
}

TEST(BadConfig, is_too_large) {
    const std::string most = "9223372036854775807";
    struct Row {
        const char* name;
        ConfigText config;
        std::string error;
    };
    const std::vector<Row> rows{
        {"hidden size", small_qwen().with("hidden_size", "4294967296"),
         "m: tensor model.embed_tokens.weight has 4294967296 columns, must have fewer than "
         "4294967296"},
        {"q rows", small_qwen().with("head_dim", most),
         "rows of q_proj: 4 x 9223372036854775807 does not fit in 64 bits"},
        {"MLA head dimension", small_deepseek().with("qk_nope_head_dim", most),
         "rows of q: 2 x 9223372036854775811 does not fit in 64 bits"},
        {"shared experts", small_deepseek().with("n_shared_experts", most),
         "shared expert size: 9223372036854775807 x 12 does not fit in 64 bits"},
        {"vocabulary", small_qwen().with("vocab_size", most),
         "m: tensor model.embed_tokens.weight is 9223372036854775807 x 32, its bytes must fit in "
         "64 bits"},
        {"layers", small_qwen().with("num_hidden_layers", most),
         "9223372036854775807 layers with 0 routed experts each are too many, a model may have at "
         "most 2000000 tensors"},
        {"experts", small_qwen_moe().with("num_experts", most),
         "2 layers with 9223372036854775807 routed experts each are too many, a model may have at "
         "most 2000000 tensors"},
        {"layers x experts",
         small_qwen_moe().with("num_experts", "100000").with("num_hidden_layers", "500"),
         "500 layers with 100000 routed experts each are too many, a model may have at most "
         "2000000 tensors"},
    };
    for (const Row& row : rows) EXPECT_EQ(error_of(row.config.text()), row.error) << row.name;
    // Keeping fewer layers makes it a model again.
    EXPECT_EQ(error_of(small_qwen().with("num_hidden_layers", most).text(), {.layers = 2}),
              "accepted");
}

}  // namespace
}  // namespace weightlift::model
