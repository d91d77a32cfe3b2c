// Architectures of published models (sizes as in their configs) and a small one of each kind.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "weightlift/layout/layout.hpp"
#include "weightlift/model/config.hpp"

namespace weightlift::layout {

inline model::Architecture latent_model(std::string type, std::uint64_t hidden,
                                        std::uint64_t layers, std::uint64_t dense,
                                        std::uint64_t heads, std::uint64_t intermediate,
                                        std::uint64_t vocabulary,
                                        std::optional<std::uint64_t> q_lora_rank,
                                        model::Experts experts) {
    model::Architecture a;
    a.model_type = std::move(type);
    a.hidden_size = hidden;
    a.layers = layers;
    a.dense_layers = dense;
    a.heads = heads;
    a.intermediate_size = intermediate;
    a.vocab_size = vocabulary;
    a.latent = {q_lora_rank, 512, 128, 64, 128};
    a.experts = experts;
    return a;
}

inline model::Architecture grouped_model(std::string type, std::uint64_t hidden,
                                         std::uint64_t layers, std::uint64_t dense,
                                         std::uint64_t heads, std::uint64_t kv_heads,
                                         std::uint64_t intermediate, std::uint64_t vocabulary,
                                         std::optional<model::Experts> experts) {
    model::Architecture a;
    a.model_type = std::move(type);
    a.hidden_size = hidden;
    a.layers = layers;
    a.dense_layers = dense;
    a.heads = heads;
    a.intermediate_size = intermediate;
    a.vocab_size = vocabulary;
    a.grouped = {kv_heads, 128, false, true};
    a.experts = experts;
    return a;
}

inline model::Architecture moonlight() {
    return latent_model("deepseek_v3", 2048, 27, 1, 16, 11264, 163840, {}, {64, 2, 1408, true});
}
inline model::Architecture deepseek_v3() {
    return latent_model("deepseek_v3", 7168, 61, 3, 128, 18432, 129280, 1536, {256, 1, 2048, true});
}
inline model::Architecture kimi_k2() {
    return latent_model("kimi_k2", 7168, 61, 1, 64, 18432, 163840, 1536, {384, 1, 2048, true});
}
inline model::Architecture qwen3_4b() {
    model::Architecture a = grouped_model("qwen3", 2560, 36, 36, 32, 8, 9728, 151936, {});
    a.tied_embeddings = true;
    return a;
}
inline model::Architecture qwen3_8b() {
    return grouped_model("qwen3", 4096, 36, 36, 32, 8, 12288, 151936, {});
}
inline model::Architecture qwen3_30b() {
    return grouped_model("qwen3_moe", 2048, 48, 0, 32, 4, 6144, 151936,
                         model::Experts{128, 0, 768, false});
}
inline model::Architecture qwen3_235b() {
    return grouped_model("qwen3_moe", 4096, 94, 0, 64, 4, 12288, 151936,
                         model::Experts{128, 0, 1536, false});
}
inline model::Architecture glm_4_5_air() {
    model::Architecture a = grouped_model("glm4_moe", 4096, 46, 1, 96, 8, 10944, 151552,
                                          model::Experts{128, 1, 1408, true});
    a.grouped->has_bias = true;
    a.grouped->has_qk_norm = false;
    return a;
}
inline model::Architecture glm_4_5() {
    model::Architecture a = grouped_model("glm4_moe", 5120, 92, 3, 96, 8, 12288, 151552,
                                          model::Experts{160, 1, 1536, true});
    a.grouped->has_bias = true;
    return a;
}

/// The first layers only: what a test of one layer's shapes needs.
inline model::Architecture truncated(model::Architecture a, std::uint64_t layers) {
    a.dense_layers = std::min(a.dense_layers, layers);
    a.layers = layers;
    return a;
}

inline ModelSpec make_model(const model::Architecture& a, DType dtype = DType::BF16) {
    return ModelSpec(a.model_type, model::make_tensors(a, dtype), a);
}

}  // namespace weightlift::layout
