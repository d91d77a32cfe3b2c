// Parallel configurations of the two sides as values, and their "tp=8,pp=2" text form (flags
// --trainer and --rollout). Parsing checks what needs no model; the rest is checked by
// make_megatron_layout and make_sglang_layout.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weightlift/base/bytes.hpp"

namespace weightlift::layout {

/// Ranks of one side; no value of a configuration is above it either.
inline constexpr int kMaxWorldSize = 1'000'000;

/// Megatron rank order tp-cp-ep-dp-pp (first fastest): dense grid tp,cp,dp,pp and expert grid
/// etp,ep,edp,pp over the same world. Source: Megatron-LM core/parallel_state.py.
struct TrainerConfig {
    int tp = 1, cp = 1, ep = 1, pp = 1;
    int vpp = 1;                  ///< virtual pipeline chunks per stage
    std::optional<int> etp = {};  ///< defaults to tp
    std::optional<int> dp = {};   ///< defaults to the smallest legal value
    std::optional<int> first_pipeline_layers = {}, last_pipeline_layers = {};
    bool account_for_embedding = false, account_for_loss = false;

    [[nodiscard]] int expert_tp() const { return etp.value_or(tp); }
    [[nodiscard]] int data_parallel() const { return dp ? *dp : smallest_data_parallel(); }
    /// The least d such that etp*ep*pp divides tp*cp*pp*d.
    [[nodiscard]] int smallest_data_parallel() const;
    [[nodiscard]] int world_size() const { return tp * cp * data_parallel() * pp; }
    /// Throws ConfigError unless all values are positive, the world is not above kMaxWorldSize and
    /// the expert grid (etp, ep, pp) divides it. Until then the functions above may overflow.
    void check() const;
    friend bool operator==(const TrainerConfig&, const TrainerConfig&) = default;
};

/// One group of engines of equal layout. world per engine = tp * pp.
/// Source: sglang srt/distributed and layers/dp_attention.py.
struct RolloutConfig {
    int tp = 1, ep = 1, pp = 1;
    int engines = 1;
    int attn_dp = 1;                       ///< attention data parallelism inside the engine
    std::optional<int> moe_dense_tp = {};  ///< defaults to tp; only 1 or tp
    bool dp_lm_head = false, fuse_shared_experts = false;

    [[nodiscard]] int dense_tp() const { return moe_dense_tp.value_or(tp); }
    [[nodiscard]] int attention_tp() const { return tp / attn_dp; }
    [[nodiscard]] int moe_tp() const { return tp / ep; }
    [[nodiscard]] int engine_size() const { return tp * pp; }
    [[nodiscard]] int world_size() const { return engine_size() * engines; }
    /// Throws ConfigError unless all values are positive, the world is not above kMaxWorldSize,
    /// ep and attn-dp divide tp, moe-dense-tp is 1 or tp, and fused shared experts have ep=1.
    void check() const;
    friend bool operator==(const RolloutConfig&, const RolloutConfig&) = default;
};

/// Keys: tp cp ep pp vpp etp dp world first-pipeline-layers last-pipeline-layers
/// account-for-embedding account-for-loss. `launched` is the number of trainer ranks launched, used
/// by dp=auto (which is refused without it). dp and world must agree when both are given. Values
/// equal to their default are left unset, except dp, which is always filled. Throws ConfigError
/// naming key, value and rule, and suggesting the nearest key for an unknown one.
[[nodiscard]] TrainerConfig parse_trainer(std::string_view text, std::optional<int> launched = {});
/// Keys: tp ep pp engines attn-dp (alias dp) moe-dense-tp dp-lm-head fuse-shared-experts.
[[nodiscard]] RolloutConfig parse_rollout(std::string_view text);

/// Canonical text: keys in the order above, defaults left out (but tp always); parses back equal.
[[nodiscard]] std::string to_string(const TrainerConfig& config);
[[nodiscard]] std::string to_string(const RolloutConfig& config);

}  // namespace weightlift::layout
