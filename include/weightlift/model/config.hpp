// Reads a Hugging Face config.json (as text: this folder opens no files) into a ModelSpec.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightlift/model/model_spec.hpp"

namespace weightlift::model {

/// Every member has an initializer, so that designated initializers may leave any out.
struct ConfigOptions {
    std::string name{};                     ///< shown in tables and stored in results
    std::optional<std::uint64_t> layers{};  ///< keep the first N decoder layers
    std::optional<DType> dtype{};           ///< overrides torch_dtype / dtype of the config
    bool with_mtp = false;                  ///< keep multi-token-prediction layers
};

struct ParsedModel {
    ModelSpec spec;
    std::vector<std::string>
        notes;  ///< what was ignored, one sentence each (quantization_config …)
};

/// Supported model_type: deepseek_v2, deepseek_v3, kimi_k2, qwen3, qwen3_moe, glm4_moe.
/// Only fields that shape a tensor are required; a missing q_lora_rank, topk_method or dtype is
/// taken for none, none and bf16, with a note. Throws ConfigError naming field, value and rule for
/// non-JSON text, an unknown model_type, a missing, zero, negative or overflowing size, a structure
/// without rules (biases of DeepSeek and Qwen3, dense layers among the experts), layers beyond the
/// model's, or MTP asked of a model that has none.
[[nodiscard]] ParsedModel parse_config(std::string_view json_text, const ConfigOptions& options);

/// The logical tensors of an architecture with their Hugging Face names: embed_tokens, decoder
/// layers in the order of their forward pass, norm, lm_head unless tied, MTP layers numbered on.
/// ConfigError beyond two million tensors, before any is made.
[[nodiscard]] std::vector<TensorSpec> make_tensors(const Architecture& architecture, DType dtype);

}  // namespace weightlift::model
