#include "requirements.hpp"

#include <fmt/format.h>

#include "weightlift/layout/rules.hpp"

namespace weightlift::layout {

using model::Architecture;

void require_divides(std::string_view key, int value, std::uint64_t count, std::string_view what) {
    if (count % static_cast<std::uint64_t>(value) != 0)
        throw ConfigError(fmt::format("{}={} does not divide {} {}", key, value, count, what));
}

const Architecture& require_architecture(const model::ModelSpec& model) {
    if (!model.architecture())
        throw ConfigError(fmt::format(
            "model {} is a bare list of tensors: layout rules need an architecture; use a layout "
            "file on both sides",
            model.name()));
    return *model.architecture();
}

std::uint64_t megatron_padded_vocabulary(std::uint64_t vocabulary, int tp) {
    return round_up(vocabulary, 128 * static_cast<std::uint64_t>(tp));
}
std::uint64_t sglang_padded_vocabulary(std::uint64_t vocabulary) {
    return round_up(vocabulary, 64);
}

namespace {

/// Key-value heads are dealt out whole, or each head to equally many ranks.
void require_fits_kv_heads(std::string_view key, int value, std::uint64_t kv_heads) {
    const auto parts = static_cast<std::uint64_t>(value);
    if (kv_heads % parts != 0 && parts % kv_heads != 0)
        throw ConfigError(fmt::format("{}={} neither divides {} key-value heads nor is a multiple",
                                      key, value, kv_heads));
}

void refuse_ep_without_experts(std::string_view side, int ep, const Architecture& architecture) {
    if (ep > 1 && !architecture.experts)
        throw ConfigError(fmt::format("{} ep={} needs routed experts, but a {} model has 0", side,
                                      ep, architecture.model_type));
}

}  // namespace

void check_megatron(const Architecture& a, const TrainerConfig& config) {
    config.check();
    const int tp = config.tp;
    require_divides("trainer tp", tp, a.heads, "attention heads");
    if (a.grouped) {
        require_fits_kv_heads("trainer tp", tp, a.grouped->kv_heads);
        require_divides("trainer tp", tp, (a.heads + 2 * a.grouped->kv_heads) * a.grouped->head_dim,
                        "rows of linear_qkv");
    }
    if (a.dense_layers > 0)
        require_divides("trainer tp", tp, a.intermediate_size, "(intermediate_size)");
    refuse_ep_without_experts("trainer", config.ep, a);
    if (a.experts) {
        require_divides("trainer ep", config.ep, a.experts->routed, "routed experts");
        require_divides("trainer etp", config.expert_tp(), a.experts->intermediate_size,
                        "(moe_intermediate_size)");
        require_divides("trainer tp", tp, a.experts->shared * a.experts->intermediate_size,
                        "(intermediate size of the shared experts)");
    }
    if (a.mtp_layers > 0)
        require_divides("trainer tp", tp, a.hidden_size, "(hidden_size, the rows of eh_proj)");
    (void)megatron_stage_layers(a.layers, config);
}

void check_sglang(const Architecture& a, const RolloutConfig& config) {
    config.check();
    const int attention_tp = config.attention_tp();
    const std::string attention_key =
        config.attn_dp == 1
            ? "rollout tp"
            : fmt::format("rollout attn-tp = tp/attn-dp = {}/{}", config.tp, config.attn_dp);
    require_divides(attention_key, attention_tp, a.heads, "attention heads");
    if (a.grouped) require_fits_kv_heads(attention_key, attention_tp, a.grouped->kv_heads);
    const std::uint64_t padded = sglang_padded_vocabulary(a.vocab_size);
    require_divides(attention_key, attention_tp, padded, "vocabulary rows (padded to 64)");
    if (!config.dp_lm_head)
        require_divides("rollout tp", config.tp, padded, "vocabulary rows (padded to 64)");
    if (a.dense_layers > 0)
        require_divides("rollout moe-dense-tp", config.dense_tp(), a.intermediate_size,
                        "(intermediate_size)");
    if (static_cast<std::uint64_t>(config.pp) > a.layers)
        throw ConfigError(
            fmt::format("rollout pp={} is greater than {} layers", config.pp, a.layers));
    refuse_ep_without_experts("rollout", config.ep, a);
    if (config.fuse_shared_experts && (!a.experts || a.experts->shared != 1))
        throw ConfigError(
            fmt::format("rollout fuse-shared-experts=1 needs 1 shared expert, but the model has {}",
                        a.experts ? a.experts->shared : 0));
    if (!a.experts) return;
    if (static_cast<std::uint64_t>(config.tp) > a.experts->routed)
        throw ConfigError(fmt::format("rollout tp={} is greater than {} routed experts", config.tp,
                                      a.experts->routed));
    require_divides("rollout ep", config.ep, a.experts->routed, "routed experts");
    require_divides(fmt::format("rollout moe-tp = tp/ep = {}/{}", config.tp, config.ep),
                    config.moe_tp(), a.experts->intermediate_size, "(moe_intermediate_size)");
    if (!config.fuse_shared_experts)
        require_divides("rollout tp", config.tp, a.experts->shared * a.experts->intermediate_size,
                        "(intermediate size of the shared experts)");
}

}  // namespace weightlift::layout
