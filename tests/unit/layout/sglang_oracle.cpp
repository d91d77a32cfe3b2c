// Written from the tables of SGLang's layers and rank axes, with whole tensors and torch-like
// operations, independently of the library's rules.
#include <algorithm>

#include "oracles.hpp"

namespace weightlift::layout::oracle {
namespace {

struct Engine {
    const ModelSpec& model;
    const model::Architecture& arch;
    std::size_t tp, r;  // size and coordinate of each axis
    std::size_t attn_tp, attn_r;
    std::size_t ep, ep_r;
    std::size_t moe_tp, moe_r;
    bool dense_whole, dp_lm_head, fuse;
    Parameters parameters;

    [[nodiscard]] Array hf(const std::string& name) const { return tensor(model, name); }
    void whole(const std::string& to, const std::string& from, const std::string& name) {
        parameters[to + name] = hf(from + name);
    }

    void vocabulary(const std::string& name, const std::string& from, std::size_t index,
                    std::size_t parts) {
        const Array rows = hf(from);
        const std::size_t padded = (rows.shape[0] + 63) / 64 * 64;
        const Array zeros = Array::filled({padded - rows.shape[0], rows.shape[1]}, kPadding);
        parameters[name] = concatenate(0, {rows, zeros}).chunk(0, index, parts);
    }

    void mlp(const std::string& to, const std::string& from, std::size_t index, std::size_t parts) {
        parameters[to + "gate_up_proj.weight"] =
            concatenate(0, {hf(from + "gate_proj.weight").chunk(0, index, parts),
                            hf(from + "up_proj.weight").chunk(0, index, parts)});
        parameters[to + "down_proj.weight"] = hf(from + "down_proj.weight").chunk(1, index, parts);
    }

    void latent(const std::string& to, const std::string& from) {
        if (arch.latent->q_lora_rank) {
            parameters[to + "fused_qkv_a_proj_with_mqa.weight"] = concatenate(
                0, {hf(from + "q_a_proj.weight"), hf(from + "kv_a_proj_with_mqa.weight")});
            whole(to, from, "q_a_layernorm.weight");
            parameters[to + "q_b_proj.weight"] =
                hf(from + "q_b_proj.weight").chunk(0, attn_r, attn_tp);
        } else {
            whole(to, from, "kv_a_proj_with_mqa.weight");
            parameters[to + "q_proj.weight"] = hf(from + "q_proj.weight").chunk(0, attn_r, attn_tp);
        }
        whole(to, from, "kv_a_layernorm.weight");
        parameters[to + "kv_b_proj.weight"] =
            hf(from + "kv_b_proj.weight").chunk(0, attn_r, attn_tp);
    }

    void grouped(const std::string& to, const std::string& from) {
        const std::size_t heads = arch.grouped->kv_heads, d = arch.grouped->head_dim;
        const std::size_t mine = std::max<std::size_t>(1, heads / attn_tp);
        const std::size_t replicas = std::max<std::size_t>(1, attn_tp / heads);
        const std::size_t first = attn_r / replicas * mine;
        const auto kv = [&](const std::string& name) {
            return hf(from + name).cut(0, first * d, (first + mine) * d);
        };
        for (const std::string kind : {"weight", "bias"}) {
            if (kind == "bias" && !arch.grouped->has_bias) continue;
            parameters[to + "qkv_proj." + kind] =
                concatenate(0, {hf(from + "q_proj." + kind).chunk(0, attn_r, attn_tp),
                                kv("k_proj." + kind), kv("v_proj." + kind)});
        }
        if (arch.grouped->has_qk_norm) {
            whole(to, from, "q_norm.weight");
            whole(to, from, "k_norm.weight");
        }
    }

    void moe(const std::string& to, const std::string& from) {
        whole(to, from, "gate.weight");
        if (arch.experts->has_score_bias) whole(to, from, "gate.e_score_correction_bias");
        std::vector<std::string> experts;
        const std::size_t local = arch.experts->routed / ep;
        for (std::size_t e = ep_r * local; e < (ep_r + 1) * local; ++e)
            experts.push_back(from + "experts." + std::to_string(e) + ".");
        if (fuse)
            experts.push_back(from + "shared_experts.");
        else if (arch.experts->shared > 0)
            mlp(to + "shared_experts.", from + "shared_experts.", r, tp);
        std::vector<Array> w13, w2;
        for (const std::string& expert : experts) {
            w13.push_back(concatenate(0, {hf(expert + "gate_proj.weight").chunk(0, moe_r, moe_tp),
                                          hf(expert + "up_proj.weight").chunk(0, moe_r, moe_tp)}));
            w2.push_back(hf(expert + "down_proj.weight").chunk(1, moe_r, moe_tp));
        }
        parameters[to + "experts.w13_weight"] = stack(w13);
        parameters[to + "experts.w2_weight"] = stack(w2);
    }

    void layer(const std::string& to, std::size_t number) {
        const std::string from = "model.layers." + std::to_string(number) + ".";
        whole(to, from, "input_layernorm.weight");
        whole(to, from, "post_attention_layernorm.weight");
        if (arch.latent)
            latent(to + "self_attn.", from + "self_attn.");
        else
            grouped(to + "self_attn.", from + "self_attn.");
        parameters[to + "self_attn.o_proj.weight"] =
            hf(from + "self_attn.o_proj.weight").chunk(1, attn_r, attn_tp);
        if (arch.experts && number >= arch.dense_layers)
            moe(to + "mlp.", from + "mlp.");
        else if (dense_whole)
            mlp(to + "mlp.", from + "mlp.", 0, 1);
        else
            mlp(to + "mlp.", from + "mlp.", r, tp);
    }

    void mtp(std::size_t number) {
        const std::string at = "model.layers." + std::to_string(number) + ".";
        for (const std::string name :
             {"enorm.weight", "hnorm.weight", "eh_proj.weight", "shared_head.norm.weight"})
            whole(at, at, name);
        layer(at + "decoder.", number);
    }
};

}  // namespace

Parameters sglang_rank(const ModelSpec& model, const RolloutConfig& config, int rank) {
    const model::Architecture& arch = *model.architecture();
    const auto tp = static_cast<std::size_t>(config.tp), P = static_cast<std::size_t>(config.pp);
    const auto ep = static_cast<std::size_t>(config.ep);
    const std::size_t r = static_cast<std::size_t>(rank) % tp;
    const std::size_t stage = static_cast<std::size_t>(rank) / tp;
    const std::size_t attn_tp = tp / static_cast<std::size_t>(config.attn_dp);
    Engine engine{.model = model,
                  .arch = arch,
                  .tp = tp,
                  .r = r,
                  .attn_tp = attn_tp,
                  .attn_r = r % attn_tp,
                  .ep = ep,
                  .ep_r = r / (tp / ep),
                  .moe_tp = tp / ep,
                  .moe_r = r % (tp / ep),
                  .dense_whole = config.moe_dense_tp == 1,
                  .dp_lm_head = config.dp_lm_head,
                  .fuse = config.fuse_shared_experts,
                  .parameters = {}};
    if (stage == 0)
        engine.vocabulary("model.embed_tokens.weight", "model.embed_tokens.weight", engine.attn_r,
                          attn_tp);
    std::size_t layer = 0;
    for (std::size_t s = 0; s < P; ++s) {
        const std::size_t size = arch.layers / P + (P - s <= arch.layers % P ? 1 : 0);
        for (std::size_t i = 0; i < size; ++i, ++layer)
            if (s == stage) engine.layer("model.layers." + std::to_string(layer) + ".", layer);
    }
    if (stage == P - 1) {
        engine.whole("", "", "model.norm.weight");
        const std::string head =
            arch.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
        if (!arch.tied_embeddings || P > 1)
            engine.vocabulary("lm_head.weight", head, config.dp_lm_head ? engine.attn_r : r,
                              config.dp_lm_head ? attn_tp : tp);
        for (std::size_t i = 0; i < arch.mtp_layers; ++i) engine.mtp(arch.layers + i);
    }
    return engine.parameters;
}

}  // namespace weightlift::layout::oracle
