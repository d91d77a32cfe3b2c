// SGLang's rules: fused parameter names, what each of them is cut along, and who holds it.
// Sources: sglang srt/models/{deepseek_v2,qwen2_moe,qwen3_moe,glm4_moe}.py, srt/layers/{linear,
// vocab_parallel_embedding,dp_attention}.py, srt/layers/moe/fused_moe_triton/layer.py.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightlift/layout/rules.hpp"

#include "checkpoint_names.hpp"
#include "requirements.hpp"
#include "shards.hpp"

namespace weightlift::layout {
namespace {

/// The rank sets of one pipeline stage, over all engines of the group.
struct Stage {
    Family all;        ///< one set: every rank of the stage
    Family tensor;     ///< by tp rank
    Family attention;  ///< by attention tp rank = tp rank mod (tp / attn-dp)
};

/// One group of engines of equal layout, whose first rank is `first_rank`.
class SglangRules {
public:
    SglangRules(const ModelSpec& model, const RolloutConfig& config, Rank first_rank,
                LayoutBuilder& builder)
        : arch_(require_architecture(model)),
          config_(config),
          builder_(builder),
          shards_(model, builder),
          names_(model) {
        for (int pp = 0; pp < config.pp; ++pp) stages_.push_back(make_stage(first_rank, pp));
    }

    void add_all() {
        const Stage& first = stages_.front();
        const Stage& last = stages_.back();
        add_vocabulary("model.embed_tokens.weight", "model.embed_tokens.weight", first.attention);
        const auto layers = sglang_stage_layers(arch_.layers, config_.pp);
        for (std::size_t stage = 0; stage < layers.size(); ++stage)
            for (std::uint64_t layer = layers[stage].begin; layer < layers[stage].end; ++layer)
                add_layer(fmt::format("model.layers.{}.", layer), layer, stages_[stage]);
        shards_.whole("model.norm.weight", names_("model.norm.weight"), last.all.front());
        // A tied head on the stage of the embedding is the embedding itself.
        if (!arch_.tied_embeddings || stages_.size() > 1)
            add_vocabulary("lm_head.weight",
                           arch_.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight",
                           config_.dp_lm_head ? last.attention : last.tensor);
        for (std::uint64_t i = 0; i < arch_.mtp_layers; ++i) add_mtp(arch_.layers + i);
    }

private:
    /// Rank in the engine = tp_rank + tp * pp_rank.
    [[nodiscard]] Stage make_stage(Rank first_rank, int pp) {
        const auto every = [&](int first, int step) {
            std::vector<Rank> ranks;
            for (int engine = 0; engine < config_.engines; ++engine)
                for (int r = first; r < config_.tp; r += step)
                    ranks.push_back(first_rank + engine * config_.engine_size() + pp * config_.tp +
                                    r);
            return builder_.rank_set(std::move(ranks));
        };
        Stage stage;
        stage.all = {every(0, 1)};
        for (int r = 0; r < config_.tp; ++r) stage.tensor.push_back(every(r, config_.tp));
        for (int r = 0; r < config_.attention_tp(); ++r)
            stage.attention.push_back(every(r, config_.attention_tp()));
        return stage;
    }

    void add_vocabulary(std::string_view name, std::string_view tensor, const Family& family) {
        shards_.vocabulary(name, names_(tensor), sglang_padded_vocabulary(arch_.vocab_size),
                           family);
    }

    /// The draft worker's parameters, which SGLang calls model.enorm, model.decoder.* …, under the
    /// prefix of the checkpoint's layer to keep names unique.
    void add_mtp(std::uint64_t layer) {
        const Stage& last = stages_.back();
        const std::string prefix = fmt::format("model.layers.{}.", layer);
        names_.enter_layer(layer);
        for (const std::string_view name : {"enorm.weight", "hnorm.weight", "eh_proj.weight"})
            shards_.whole(prefix + std::string(name), names_.in_layer(name), last.all.front());
        add_layer(prefix + "decoder.", layer, last);
        shards_.whole(prefix + "shared_head.norm.weight",
                      names_.in_layer("shared_head.norm.weight"), last.all.front());
    }

    /// `prefix` is the parameters', `layer` the checkpoint's number.
    void add_layer(const std::string& prefix, std::uint64_t layer, const Stage& stage) {
        names_.enter_layer(layer);
        add_whole(prefix, "input_layernorm.weight", stage);
        if (arch_.latent)
            add_latent_attention(prefix, *arch_.latent, stage);
        else
            add_grouped_attention(prefix, *arch_.grouped, stage);
        add_whole(prefix, "post_attention_layernorm.weight", stage);
        if (arch_.is_moe_layer(layer))
            add_experts(prefix, *arch_.experts, stage);
        else
            add_mlp(prefix + "mlp.", names_.mlp("mlp."),
                    config_.dense_tp() == 1 ? stage.all : stage.tensor);
    }

    /// A tensor that keeps its name and is held whole by every rank of the stage.
    void add_whole(const std::string& prefix, std::string_view name, const Stage& stage) {
        shards_.whole(prefix + std::string(name), names_.in_layer(name), stage.all.front());
    }
    /// A tensor that keeps its name and is cut by rows over attention tp.
    void add_heads(const std::string& prefix, std::string_view name, const Stage& stage) {
        shards_.by_rows(prefix + std::string(name), {names_.in_layer(name)}, stage.attention);
    }

    void add_latent_attention(const std::string& prefix, const model::LatentAttention& latent,
                              const Stage& stage) {
        if (latent.q_lora_rank) {
            const TensorId q_a = names_.in_layer("self_attn.q_a_proj.weight");
            const TensorId kv_a = names_.in_layer("self_attn.kv_a_proj_with_mqa.weight");
            shards_.by_rows(prefix + "self_attn.fused_qkv_a_proj_with_mqa.weight", {q_a, kv_a},
                            stage.all);
            add_whole(prefix, "self_attn.q_a_layernorm.weight", stage);
            add_heads(prefix, "self_attn.q_b_proj.weight", stage);
        } else {
            add_heads(prefix, "self_attn.q_proj.weight", stage);
            add_whole(prefix, "self_attn.kv_a_proj_with_mqa.weight", stage);
        }
        add_whole(prefix, "self_attn.kv_a_layernorm.weight", stage);
        add_heads(prefix, "self_attn.kv_b_proj.weight", stage);
        add_output_projection(prefix, stage);
    }

    void add_grouped_attention(const std::string& prefix, const model::GroupedAttention& grouped,
                               const Stage& stage) {
        add_qkv(prefix, "weight", grouped, stage);
        if (grouped.has_bias) add_qkv(prefix, "bias", grouped, stage);
        if (grouped.has_qk_norm) {
            add_whole(prefix, "self_attn.q_norm.weight", stage);
            add_whole(prefix, "self_attn.k_norm.weight", stage);
        }
        add_output_projection(prefix, stage);
    }

    void add_output_projection(const std::string& prefix, const Stage& stage) {
        shards_.by_columns(prefix + "self_attn.o_proj.weight",
                           names_.in_layer("self_attn.o_proj.weight"), stage.attention);
    }

    /// [q | k | v], each cut by heads; with fewer key-value heads than ranks, a run of `replicas`
    /// ranks has the same one.
    void add_qkv(const std::string& prefix, std::string_view kind,
                 const model::GroupedAttention& grouped, const Stage& stage) {
        const auto tensor = [&](char letter) {
            return names_.in_layer(fmt::format("self_attn.{}_proj.{}", letter, kind));
        };
        const TensorId q = tensor('q'), k = tensor('k'), v = tensor('v');
        const std::uint64_t d = grouped.head_dim;
        const std::size_t parts = stage.attention.size();
        const std::size_t kv_parts = std::min(parts, static_cast<std::size_t>(grouped.kv_heads));
        const std::size_t replicas = parts / kv_parts;
        const std::string name = fmt::format("{}self_attn.qkv_proj.{}", prefix, kind);
        for (std::size_t i = 0; i < parts; ++i) {
            const Interval kv = slice(grouped.kv_heads * d, i / replicas, kv_parts);
            Draft shard = shards_.draft(name, stage.attention[i]);
            shard.reserve(3);
            shard.rows(q, slice(arch_.heads * d, i, parts)).rows(k, kv).rows(v, kv);
            shards_.add(shard.take());
        }
    }

    void add_mlp(const std::string& prefix, const GatedMlp& mlp, const Family& family) {
        shards_.by_rows(prefix + "gate_up_proj.weight", {mlp.gate, mlp.up}, family);
        shards_.by_columns(prefix + "down_proj.weight", mlp.down, family);
    }

    void add_experts(const std::string& prefix, const model::Experts& experts, const Stage& stage) {
        add_whole(prefix, "mlp.gate.weight", stage);
        if (experts.has_score_bias) add_whole(prefix, "mlp.gate.e_score_correction_bias", stage);
        std::vector<GatedMlp> mlps = names_.experts(experts.routed);
        if (experts.shared > 0) {
            const GatedMlp shared = names_.mlp("mlp.shared_experts.");
            if (config_.fuse_shared_experts)
                mlps.push_back(shared);  // expert number `routed`
            else
                add_mlp(prefix + "mlp.shared_experts.", shared, stage.tensor);
        }
        add_stacked_experts(prefix + "mlp.experts.", mlps, experts.intermediate_size, stage);
    }

    /// w13 is [local experts][w1 slice; w3 slice][hidden], w2 [local experts][hidden][slice]; of
    /// the tp rank, moe_tp is the fast part and ep the slow one.
    void add_stacked_experts(const std::string& prefix, const std::vector<GatedMlp>& mlps,
                             std::uint64_t intermediate_size, const Stage& stage) {
        const auto moe_tp = static_cast<std::size_t>(config_.moe_tp());
        const std::size_t local = mlps.size() / static_cast<std::size_t>(config_.ep);
        for (std::size_t r = 0; r < stage.tensor.size(); ++r) {
            const auto mine = std::span(mlps).subspan(r / moe_tp * local, local);
            const Interval part = slice(intermediate_size, r % moe_tp, moe_tp);
            Draft w13 = shards_.draft(prefix + "w13_weight", stage.tensor[r]);
            w13.reserve(2 * local);
            for (const GatedMlp& mlp : mine) w13.rows(mlp.gate, part).rows(mlp.up, part);
            shards_.add(w13.take_stacked(local));
        }
        for (std::size_t r = 0; r < stage.tensor.size(); ++r) {
            const auto mine = std::span(mlps).subspan(r / moe_tp * local, local);
            const Interval part = slice(intermediate_size, r % moe_tp, moe_tp);
            Draft w2 = shards_.draft(prefix + "w2_weight", stage.tensor[r]);
            w2.reserve(local);
            for (const GatedMlp& mlp : mine) w2.columns(mlp.down, part);
            shards_.add(w2.take_stacked(local));
        }
    }

    const model::Architecture& arch_;
    const RolloutConfig& config_;
    LayoutBuilder& builder_;
    Shards shards_;
    CheckpointNames names_;
    std::vector<Stage> stages_;
};

}  // namespace

Layout make_sglang_layout(const ModelSpec& model, std::span<const RolloutConfig> groups) {
    if (groups.empty()) throw ConfigError("rollout: no group of engines is given");
    std::string description;
    std::int64_t world = 0;
    for (const RolloutConfig& group : groups) {
        check_sglang(require_architecture(model), group);
        if (!description.empty()) description += '+';
        description += to_string(group);
        world += group.world_size();
        if (world > kMaxWorldSize)
            throw ConfigError(
                fmt::format("rollout groups {} have {} ranks or more, above the limit "
                            "of {}",
                            description, world, kMaxWorldSize));
    }
    LayoutBuilder builder(Side::Rollout, description, static_cast<Rank>(world));
    Rank first = 0;
    for (const RolloutConfig& group : groups) {
        for (int engine = 0; engine < group.engines; ++engine)
            builder.begin_engine(first + engine * group.engine_size());
        SglangRules(model, group, first, builder).add_all();
        first += group.world_size();
    }
    return std::move(builder).finish(model);
}

}  // namespace weightlift::layout
