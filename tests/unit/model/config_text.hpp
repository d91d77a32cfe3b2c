// A config.json as an editable list of fields, so that a test states only what it changes. Values
// are raw JSON text: "1.0" and "18446744073709551616" stay what they are.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weightlift::model {

class ConfigText {
public:
    using Field = std::pair<std::string, std::string>;
    explicit ConfigText(std::vector<Field> fields) : fields_(std::move(fields)) {}

    [[nodiscard]] ConfigText with(const std::string& field, const std::string& value) const {
        ConfigText changed = without(field);
        changed.fields_.emplace_back(field, value);
        return changed;
    }
    [[nodiscard]] ConfigText without(const std::string& field) const {
        ConfigText changed = *this;
        std::erase_if(changed.fields_, [&](const Field& f) { return f.first == field; });
        return changed;
    }
    [[nodiscard]] std::string text() const {
        std::string json = "{";
        for (const auto& [field, value] : fields_)
            json += (json.size() > 1 ? ", \"" : "\"") + field + "\": " + value;
        return json + "}";
    }
    [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }

private:
    std::vector<Field> fields_;
};

/// 3 layers of which the first is dense, 4 experts; every size is different.
inline ConfigText small_deepseek() {
    return ConfigText({{"model_type", "\"deepseek_v3\""},
                       {"hidden_size", "32"},
                       {"intermediate_size", "48"},
                       {"moe_intermediate_size", "12"},
                       {"num_hidden_layers", "3"},
                       {"first_k_dense_replace", "1"},
                       {"num_attention_heads", "2"},
                       {"q_lora_rank", "20"},
                       {"kv_lora_rank", "16"},
                       {"qk_nope_head_dim", "8"},
                       {"qk_rope_head_dim", "4"},
                       {"v_head_dim", "6"},
                       {"n_routed_experts", "4"},
                       {"n_shared_experts", "2"},
                       {"topk_method", "\"noaux_tc\""},
                       {"num_nextn_predict_layers", "1"},
                       {"tie_word_embeddings", "false"},
                       {"torch_dtype", "\"bfloat16\""},
                       {"vocab_size", "100"}});
}

inline ConfigText small_qwen() {
    return ConfigText({{"model_type", "\"qwen3\""},
                       {"hidden_size", "32"},
                       {"intermediate_size", "48"},
                       {"num_hidden_layers", "2"},
                       {"num_attention_heads", "4"},
                       {"num_key_value_heads", "2"},
                       {"head_dim", "10"},
                       {"tie_word_embeddings", "false"},
                       {"torch_dtype", "\"bfloat16\""},
                       {"vocab_size", "100"}});
}

inline ConfigText small_qwen_moe() {
    return small_qwen()
        .with("model_type", "\"qwen3_moe\"")
        .without("intermediate_size")
        .with("num_experts", "4")
        .with("moe_intermediate_size", "12")
        .with("decoder_sparse_step", "1")
        .with("mlp_only_layers", "[]");
}

inline ConfigText small_glm() {
    return small_qwen()
        .with("model_type", "\"glm4_moe\"")
        .with("num_hidden_layers", "3")
        .with("first_k_dense_replace", "1")
        .with("attention_bias", "true")
        .with("use_qk_norm", "true")
        .with("n_routed_experts", "4")
        .with("n_shared_experts", "1")
        .with("moe_intermediate_size", "12")
        .with("num_nextn_predict_layers", "1");
}

}  // namespace weightlift::model
