#include "requirements.hpp"

#include <fmt/format.h>

#include "weightlift/layout/rules.hpp"

namespace weightlift::layout {

using model::Architecture;

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

/// A number that something must be divisible by, and how it is written: "rollout tp=16".
struct Divisor {
    std::string text;
    std::uint64_t value;

    Divisor(std::string_view key, int divisor)
        : text(fmt::format("{}={}", key, divisor)), value(static_cast<std::uint64_t>(divisor)) {}
    /// "rollout moe-tp = tp/ep = 8/2 = 4".
    Divisor(std::string_view key, std::string_view of, int numerator, int denominator)
        : text(fmt::format("{} = {} = {}/{} = {}", key, of, numerator, denominator,
                           numerator / denominator)),
          value(static_cast<std::uint64_t>(numerator / denominator)) {}
};

void require_divides(const Divisor& divisor, std::uint64_t count, std::string_view what) {
    if (count % divisor.value != 0)
        throw ConfigError(fmt::format("{} does not divide {} {}", divisor.text, count, what));
}

/// Key-value heads are dealt out whole, or each head to equally many ranks.
void require_fits_kv_heads(const Divisor& divisor, std::uint64_t kv_heads) {
    if (kv_heads % divisor.value != 0 && divisor.value % kv_heads != 0)
        throw ConfigError(fmt::format("{} neither divides {} key-value heads nor is a multiple",
                                      divisor.text, kv_heads));
}

void refuse_ep_without_experts(std::string_view side, int ep, const Architecture& architecture) {
    if (ep > 1 && !architecture.experts)
        throw ConfigError(fmt::format("{} ep={} needs routed experts, but a {} model has 0", side,
                                      ep, architecture.model_type));
}

}  // namespace

void check_megatron(const Architecture& a, const TrainerConfig& config) {
    config.check();
    const Divisor tp("trainer tp", config.tp);
    require_divides(tp, a.heads, "attention heads");
    if (a.grouped) {
        require_fits_kv_heads(tp, a.grouped->kv_heads);
        require_divides(tp, (a.heads + 2 * a.grouped->kv_heads) * a.grouped->head_dim,
                        "rows of linear_qkv");
    }
    if (a.dense_layers > 0) require_divides(tp, a.intermediate_size, "(intermediate_size)");
    refuse_ep_without_experts("trainer", config.ep, a);
    if (a.experts) {
        require_divides({"trainer ep", config.ep}, a.experts->routed, "routed experts");
        require_divides({"trainer etp", config.expert_tp()}, a.experts->intermediate_size,
                        "(moe_intermediate_size)");
        require_divides(tp, a.experts->shared * a.experts->intermediate_size,
                        "(intermediate size of the shared experts)");
    }
    if (a.mtp_layers > 0) require_divides(tp, a.hidden_size, "(hidden_size, the rows of eh_proj)");
    (void)megatron_stage_layers(a.layers, config);
}

void check_sglang(const Architecture& a, const RolloutConfig& config) {
    config.check();
    const Divisor tp("rollout tp", config.tp);
    const Divisor attention_tp =
        config.attn_dp == 1 ? tp
                            : Divisor("rollout attn-tp", "tp/attn-dp", config.tp, config.attn_dp);
    require_divides(attention_tp, a.heads, "attention heads");
    if (a.grouped) require_fits_kv_heads(attention_tp, a.grouped->kv_heads);
    const std::uint64_t padded = sglang_padded_vocabulary(a.vocab_size);
    require_divides(attention_tp, padded, "vocabulary rows (padded to 64)");
    if (!config.dp_lm_head) require_divides(tp, padded, "vocabulary rows (padded to 64)");
    if (a.dense_layers > 0)
        require_divides(config.dense_tp() == config.tp
                            ? tp
                            : Divisor("rollout moe-dense-tp", config.dense_tp()),
                        a.intermediate_size, "(intermediate_size)");
    if (static_cast<std::uint64_t>(config.pp) > a.layers)
        throw ConfigError(
            fmt::format("rollout pp={} is greater than {} layers", config.pp, a.layers));
    refuse_ep_without_experts("rollout", config.ep, a);
    if (config.fuse_shared_experts && (!a.experts || a.experts->shared != 1))
        throw ConfigError(
            fmt::format("rollout fuse-shared-experts=1 needs 1 shared expert, but the model has {}",
                        a.experts ? a.experts->shared : 0));
    if (!a.experts) return;
    if (tp.value > a.experts->routed)
        throw ConfigError(
            fmt::format("{} is greater than {} routed experts", tp.text, a.experts->routed));
    require_divides({"rollout ep", config.ep}, a.experts->routed, "routed experts");
    require_divides({"rollout moe-tp", "tp/ep", config.tp, config.ep}, a.experts->intermediate_size,
                    "(moe_intermediate_size)");
    if (!config.fuse_shared_experts)
        require_divides(tp, a.experts->shared * a.experts->intermediate_size,
                        "(intermediate size of the shared experts)");
}

}  // namespace weightlift::layout
