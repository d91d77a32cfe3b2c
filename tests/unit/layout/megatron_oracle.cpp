// Written from the tables of Megatron-LM's layers and its rank formulas, with whole tensors and
// torch-like operations, independently of the library's rules.
#include "oracles.hpp"

namespace weightlift::layout::oracle {
namespace {

std::size_t size(int n) { return static_cast<std::size_t>(n); }

struct Trainer {
    const ModelSpec& model;
    const model::Architecture& arch;
    const TrainerConfig& config;
    std::size_t tp, pp, etp, ep;  // coordinates of the rank
    std::size_t T, P, ET, X;      // sizes
    Parameters parameters;

    [[nodiscard]] Array hf(const std::string& name) const { return tensor(model, name); }

    void vocabulary(const std::string& name, const std::string& from) {
        const Array rows = hf(from);
        const std::size_t multiple = 128 * T;
        const std::size_t padded = (rows.shape[0] + multiple - 1) / multiple * multiple;
        const Array zeros = Array::filled({padded - rows.shape[0], rows.shape[1]}, kPadding);
        parameters[name] = concatenate(0, {rows, zeros}).chunk(0, tp, T);
    }

    void mlp(const std::string& to, const std::string& from, std::size_t index, std::size_t parts,
             const std::string& suffix) {
        parameters[to + "linear_fc1.weight" + suffix] =
            concatenate(0, {hf(from + "gate_proj.weight").chunk(0, index, parts),
                            hf(from + "up_proj.weight").chunk(0, index, parts)});
        parameters[to + "linear_fc2.weight" + suffix] =
            hf(from + "down_proj.weight").chunk(1, index, parts);
    }

    void latent(const std::string& to, const std::string& from) {
        if (arch.latent->q_lora_rank) {
            parameters[to + "linear_q_down_proj.weight"] = hf(from + "q_a_proj.weight");
            parameters[to + "linear_q_up_proj.layer_norm_weight"] =
                hf(from + "q_a_layernorm.weight");
            parameters[to + "linear_q_up_proj.weight"] =
                hf(from + "q_b_proj.weight").chunk(0, tp, T);
        } else {
            parameters[to + "linear_q_proj.weight"] = hf(from + "q_proj.weight").chunk(0, tp, T);
        }
        parameters[to + "linear_kv_down_proj.weight"] = hf(from + "kv_a_proj_with_mqa.weight");
        parameters[to + "linear_kv_up_proj.layer_norm_weight"] = hf(from + "kv_a_layernorm.weight");
        parameters[to + "linear_kv_up_proj.weight"] = hf(from + "kv_b_proj.weight").chunk(0, tp, T);
        parameters[to + "linear_proj.weight"] = hf(from + "o_proj.weight").chunk(1, tp, T);
    }

    /// View q, k, v as [group][heads of it][head_dim][width], join the heads of a group, flatten.
    [[nodiscard]] Array qkv(const std::string& from, const std::string& kind) const {
        const std::size_t groups = arch.grouped->kv_heads, d = arch.grouped->head_dim;
        const Array q = hf(from + "q_proj." + kind);
        const std::size_t width = q.shape.size() == 1 ? 1 : q.shape[1];
        const Array joined =
            concatenate(1, {q.reshape({groups, arch.heads / groups, d, width}),
                            hf(from + "k_proj." + kind).reshape({groups, 1, d, width}),
                            hf(from + "v_proj." + kind).reshape({groups, 1, d, width})});
        const std::size_t rows = (arch.heads + 2 * groups) * d;
        return q.shape.size() == 1 ? joined.reshape({rows}) : joined.reshape({rows, width});
    }

    void grouped(const std::string& to, const std::string& from) {
        parameters[to + "linear_qkv.weight"] = qkv(from, "weight").chunk(0, tp, T);
        if (arch.grouped->has_bias)
            parameters[to + "linear_qkv.bias"] = qkv(from, "bias").chunk(0, tp, T);
        if (arch.grouped->has_qk_norm) {
            parameters[to + "q_layernorm.weight"] = hf(from + "q_norm.weight");
            parameters[to + "k_layernorm.weight"] = hf(from + "k_norm.weight");
        }
        parameters[to + "linear_proj.weight"] = hf(from + "o_proj.weight").chunk(1, tp, T);
    }

    void experts(const std::string& to, const std::string& from) {
        parameters[to + "router.weight"] = hf(from + "gate.weight");
        if (arch.experts->has_score_bias)
            parameters[to + "router.expert_bias"] = hf(from + "gate.e_score_correction_bias");
        for (std::size_t e = 0; e < arch.experts->routed; ++e)
            if (e / (arch.experts->routed / X) == ep)
                mlp(to + "experts.", from + "experts." + std::to_string(e) + ".", etp, ET,
                    std::to_string(e));
        if (arch.experts->shared > 0)
            mlp(to + "shared_experts.", from + "shared_experts.", tp, T, "");
    }

    void layer(const std::string& to, std::size_t number) {
        const std::string from = "model.layers." + std::to_string(number) + ".";
        const bool moe = arch.experts && number >= arch.dense_layers;
        const Array input_norm = hf(from + "input_layernorm.weight");
        if (arch.latent) {
            parameters[to + "input_layernorm.weight"] = input_norm;
            latent(to + "self_attention.", from + "self_attn.");
        } else {
            parameters[to + "self_attention.linear_qkv.layer_norm_weight"] = input_norm;
            grouped(to + "self_attention.", from + "self_attn.");
        }
        parameters[to + (moe ? "pre_mlp_layernorm.weight" : "mlp.linear_fc1.layer_norm_weight")] =
            hf(from + "post_attention_layernorm.weight");
        if (moe)
            experts(to + "mlp.", from + "mlp.");
        else
            mlp(to + "mlp.", from + "mlp.", tp, T, "");
    }

    /// get_num_layers_to_build and get_transformer_layer_offset, for each chunk of this stage.
    void decoder() {
        const std::size_t L = arch.layers, v = size(config.vpp);
        const bool uneven = config.first_pipeline_layers || config.last_pipeline_layers;
        const std::size_t F = size(config.first_pipeline_layers.value_or(0));
        const std::size_t Z = size(config.last_pipeline_layers.value_or(0));
        const std::size_t f = config.first_pipeline_layers ? 1 : 0;
        const std::size_t z = config.last_pipeline_layers ? 1 : 0;
        const std::size_t e = config.account_for_embedding ? 1 : 0;
        const std::size_t l = config.account_for_loss ? 1 : 0;
        for (std::size_t c = 0; c < v; ++c) {
            std::size_t count = 0, offset = 0;
            if (uneven) {
                const std::size_t middle = P > f + z ? (L - F - Z) / (P - f - z) : 0;
                count = (f == 1 && pp == 0 ? F : z == 1 && pp == P - 1 ? Z : middle) / v;
                const std::size_t total = F / v + (L - F - Z) / v + Z / v;
                offset = c * total + (pp == 0 ? 0 : F / v + (pp - f) * (middle / v));
            } else {
                const std::size_t counted = L + e + l, n = counted / P;
                const bool first = pp == 0 && c == 0, last = pp == P - 1 && c == v - 1;
                count = n / v - (first ? e : 0) - (last ? l : 0);
                offset = c * (counted / v) + pp * (n / v) - (first ? 0 : e);
            }
            for (std::size_t i = 0; i < count; ++i)
                layer("decoder.layers." + std::to_string(offset + i) + ".", offset + i);
        }
    }

    void mtp() {
        for (std::size_t i = 0; i < arch.mtp_layers; ++i) {
            const std::string to = "mtp.layers." + std::to_string(i) + ".";
            const std::string from = "model.layers." + std::to_string(arch.layers + i) + ".";
            parameters[to + "enorm.weight"] = hf(from + "enorm.weight");
            parameters[to + "hnorm.weight"] = hf(from + "hnorm.weight");
            parameters[to + "eh_proj.weight"] = hf(from + "eh_proj.weight").chunk(0, tp, T);
            layer(to + "transformer_layer.", arch.layers + i);
            parameters[to + "final_layernorm.weight"] = hf(from + "shared_head.norm.weight");
        }
    }
};

}  // namespace

Parameters megatron_rank(const ModelSpec& model, const TrainerConfig& config, int rank) {
    const model::Architecture& arch = *model.architecture();
    const std::size_t g = size(rank), T = size(config.tp), P = size(config.pp);
    const std::size_t C = size(config.cp), D = size(config.dp.value()), X = size(config.ep);
    const std::size_t ET = size(config.etp.value_or(config.tp));
    Trainer trainer{.model = model,
                    .arch = arch,
                    .config = config,
                    .tp = g % T,
                    .pp = g / (T * C * D),
                    .etp = g % ET,
                    .ep = (g / ET) % X,
                    .T = T,
                    .P = P,
                    .ET = ET,
                    .X = X,
                    .parameters = {}};
    const bool first = trainer.pp == 0, last = trainer.pp == P - 1;
    const bool has_mtp = arch.mtp_layers > 0;
    if (first || (last && has_mtp))
        trainer.vocabulary("embedding.word_embeddings.weight", "model.embed_tokens.weight");
    trainer.decoder();
    if (last) {
        trainer.parameters["decoder.final_layernorm.weight"] = trainer.hf("model.norm.weight");
        if (!arch.tied_embeddings)
            trainer.vocabulary("output_layer.weight", "lm_head.weight");
        else if (!first && !has_mtp)
            trainer.vocabulary("output_layer.weight", "model.embed_tokens.weight");
        trainer.mtp();
    }
    return trainer.parameters;
}

}  // namespace weightlift::layout::oracle
