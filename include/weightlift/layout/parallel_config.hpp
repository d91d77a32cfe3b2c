// Parallel configurations of the two sides as values, and their "tp=8,pp=2" text form (design:
// flags
// --trainer and --rollout). Parsing checks syntax; validation against a model happens in
// make_*_layout.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weightlift/base/bytes.hpp"

namespace weightlift::layout {

/// Megatron rank order tp-cp-ep-dp-pp (first fastest): dense grid tp,cp,dp,pp and expert grid
/// etp,ep,edp,pp over the same world. Source: Megatron-LM core/parallel_state.py.
struct TrainerConfig {
    int tp = 1, cp = 1, ep = 1, pp = 1;
    int vpp = 1;             ///< virtual pipeline chunks per stage
    std::optional<int> etp;  ///< defaults to tp
    std::optional<int> dp;   ///< defaults to the smallest legal value
    std::optional<int> first_pipeline_layers, last_pipeline_layers;
    bool account_for_embedding = false, account_for_loss = false;

    [[nodiscard]] int expert_tp() const { return etp.value_or(tp); }
    [[nodiscard]] int data_parallel() const { return dp.value_or(1); }
    [[nodiscard]] int world_size() const { return tp * cp * data_parallel() * pp; }
};

/// One group of engines of equal layout. world per engine = tp * pp.
/// Source: sglang srt/distributed and layers/dp_attention.py.
struct RolloutConfig {
    int tp = 1, ep = 1, pp = 1;
    int engines = 1;
    int attn_dp = 1;                  ///< attention data parallelism inside the engine
    std::optional<int> moe_dense_tp;  ///< defaults to tp; only 1 or tp
    bool dp_lm_head = false, fuse_shared_experts = false;

    [[nodiscard]] int engine_size() const { return tp * pp; }
    [[nodiscard]] int world_size() const { return engine_size() * engines; }
};

/// Keys: tp cp ep pp vpp etp dp world first-pipeline-layers last-pipeline-layers
/// account-for-embedding account-for-loss. `launched` is the number of trainer ranks launched, used
/// by dp=auto (which is refused without it). Fills dp with the smallest legal value: the least d
/// such that etp*ep*pp divides tp*cp*pp*d. Throws ConfigError naming key, value and rule, and
/// suggesting the nearest key for an unknown one.
[[nodiscard]] TrainerConfig parse_trainer(std::string_view text, std::optional<int> launched = {});
/// Keys: tp ep pp engines attn-dp (alias dp) moe-dense-tp dp-lm-head fuse-shared-experts.
[[nodiscard]] RolloutConfig parse_rollout(std::string_view text);

/// Canonical text: keys in the order above, defaults left out (but tp always); parses back equal.
[[nodiscard]] std::string to_string(const TrainerConfig& config);
[[nodiscard]] std::string to_string(const RolloutConfig& config);

}  // namespace weightlift::layout
