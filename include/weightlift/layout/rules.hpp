// Layout rules of the two frameworks. Both throw ConfigError, naming the field, the value and the
// rule with both numbers, for a configuration that cannot be; nothing is allocated before.
#pragma once

#include <span>
#include <vector>

#include "weightlift/layout/layout.hpp"
#include "weightlift/layout/parallel_config.hpp"

namespace weightlift::layout {

/// Megatron-LM trainer: TP, CP, EP, expert TP, DP, PP (even, uneven, virtual), interleaved
/// linear_qkv, [gate; up], tied embeddings, float32 expert_bias, vocabulary padded to a multiple of
/// 128 * tp. `model` must have an architecture.
[[nodiscard]] Layout make_megatron_layout(const ModelSpec& model, const TrainerConfig& config);

/// SGLang rollouts: TP, attention DP, EP with moe_tp as the fast index, moe-dense-tp, KV-head
/// replication, fused_qkv_a_proj_with_mqa, w13/w2, shared experts separate or fused, vocabulary
/// padded to 64, PP, several engines; groups stand one after the other and engines are numbered
/// through.
[[nodiscard]] Layout make_sglang_layout(const ModelSpec& model,
                                        std::span<const RolloutConfig> groups);

/// Layers of each (pipeline stage, virtual chunk) as [begin, end): result[stage][chunk].
/// Source: Megatron-LM core/transformer/{transformer_block,transformer_layer}.py.
[[nodiscard]] std::vector<std::vector<Interval>> megatron_stage_layers(std::uint64_t layers,
                                                                       const TrainerConfig& config);
/// Layers of each SGLang pipeline stage: L div P, the last L mod P stages one more.
[[nodiscard]] std::vector<Interval> sglang_stage_layers(std::uint64_t layers, int pp);

}  // namespace weightlift::layout
