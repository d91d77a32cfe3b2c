// Megatron-LM's rules: fused parameter names, what each of them is cut along, and who holds it.
// Sources: Megatron-LM core/parallel_state.py (rank grids), core/transformer/attention.py,
// multi_latent_attention.py, moe/, multi_token_prediction.py, core/models/gpt/gpt_model.py.
#include <utility>

#include <fmt/format.h>

#include "weightlift/layout/rules.hpp"

#include "checkpoint_names.hpp"
#include "requirements.hpp"
#include "shards.hpp"

namespace weightlift::layout {
namespace {

/// The rank sets of one pipeline stage.
struct Stage {
    Family all;      ///< one set: every rank of the stage
    Family tensor;   ///< by tp rank, over cp and dp
    Family experts;  ///< by ep * ET + etp, over expert dp
};

class MegatronRules {
public:
    MegatronRules(const ModelSpec& model, const TrainerConfig& config)
        : model_(model),
          arch_(require_architecture(model)),
          config_(config),
          builder_(Side::Trainer, to_string(config), config.world_size()),
          shards_(model, builder_),
          names_(model) {
        for (int pp = 0; pp < config.pp; ++pp) stages_.push_back(make_stage(pp));
        stage_of_layer_.resize(arch_.layers);
        const auto layers = megatron_stage_layers(arch_.layers, config);
        for (std::size_t stage = 0; stage < layers.size(); ++stage)
            for (const Interval& chunk : layers[stage])
                for (std::uint64_t layer = chunk.begin; layer < chunk.end; ++layer)
                    stage_of_layer_[layer] = stage;
    }

    [[nodiscard]] Layout make() && {
        // Experts make two parameters of three tensors, tp makes several of one: about as many.
        builder_.reserve(model_.tensors().size());
        add_embedding();
        for (std::uint64_t layer = 0; layer < arch_.layers; ++layer)
            add_layer(fmt::format("decoder.layers.{}.", layer), layer,
                      stages_[stage_of_layer_[layer]]);
        add_head();
        for (std::uint64_t i = 0; i < arch_.mtp_layers; ++i) add_mtp(i);
        return std::move(builder_).finish(model_);
    }

private:
    /// Dense grid: rank = tp + T*(cp + C*(dp + D*pp)); expert grid: etp + ET*(ep + X*(edp +
    /// ED*pp)). In both, a stage is one run of world/P ranks, and a set is every n-th rank of it.
    [[nodiscard]] Stage make_stage(int pp) {
        const int size = config_.world_size() / config_.pp;
        const auto every = [&](int first, int step) {
            std::vector<Rank> ranks;
            ranks.reserve(static_cast<std::size_t>(size / step));
            for (int r = first; r < size; r += step) ranks.push_back(pp * size + r);
            return builder_.rank_set(std::move(ranks));
        };
        Stage stage;
        stage.all = {every(0, 1)};
        for (int tp = 0; tp < config_.tp; ++tp) stage.tensor.push_back(every(tp, config_.tp));
        if (arch_.experts) {
            const int grid = config_.expert_tp() * config_.ep;
            for (int i = 0; i < grid; ++i) stage.experts.push_back(every(i, grid));
        }
        return stage;
    }

    /// MTP needs the embedding on its stage, the last one: a copy of the same name.
    void add_embedding() {
        const Stage& first = stages_.front();
        Family family = first.tensor;
        if (arch_.mtp_layers > 0 && stages_.size() > 1) {
            const int size = config_.world_size() / config_.pp;
            for (int tp = 0; tp < config_.tp; ++tp) {
                std::vector<Rank> ranks;
                for (const int stage : {0, config_.pp - 1})
                    for (int r = tp; r < size; r += config_.tp) ranks.push_back(stage * size + r);
                family[static_cast<std::size_t>(tp)] = builder_.rank_set(std::move(ranks));
            }
        }
        add_vocabulary("embedding.word_embeddings.weight", "model.embed_tokens.weight", family);
    }

    /// Tied embeddings: no output layer where the embedding is (the first stage, or with MTP the
    /// last one too), otherwise a copy of it under the output layer's name.
    void add_head() {
        const Stage& last = stages_.back();
        shards_.whole("decoder.final_layernorm.weight", names_("model.norm.weight"),
                      last.all.front());
        if (!arch_.tied_embeddings)
            add_vocabulary("output_layer.weight", "lm_head.weight", last.tensor);
        else if (stages_.size() > 1 && arch_.mtp_layers == 0)
            add_vocabulary("output_layer.weight", "model.embed_tokens.weight", last.tensor);
    }

    void add_vocabulary(std::string_view name, std::string_view tensor, const Family& family) {
        shards_.vocabulary(name, names_(tensor),
                           megatron_padded_vocabulary(arch_.vocab_size, config_.tp), family);
    }

    void add_mtp(std::uint64_t index) {
        const Stage& last = stages_.back();
        const std::uint64_t layer = arch_.layers + index;
        const std::string prefix = fmt::format("mtp.layers.{}.", index);
        names_.enter_layer(layer);
        for (const std::string_view norm : {"enorm.weight", "hnorm.weight"})
            shards_.whole(prefix + std::string(norm), names_.in_layer(norm), last.all.front());
        shards_.by_rows(prefix + "eh_proj.weight", {names_.in_layer("eh_proj.weight")},
                        last.tensor);
        add_layer(prefix + "transformer_layer.", layer, last);
        shards_.whole(prefix + "final_layernorm.weight", names_.in_layer("shared_head.norm.weight"),
                      last.all.front());
    }

    /// `prefix` is the parameters' ("decoder.layers.7."), `layer` the checkpoint's number.
    void add_layer(const std::string& prefix, std::uint64_t layer, const Stage& stage) {
        names_.enter_layer(layer);
        const RankSetId all = stage.all.front();
        const bool is_moe = arch_.is_moe_layer(layer);
        // The norm is a parameter of the linear layer that it is fused into, if it is.
        shards_.whole(prefix + (arch_.latent ? "input_layernorm.weight"
                                             : "self_attention.linear_qkv.layer_norm_weight"),
                      names_.in_layer("input_layernorm.weight"), all);
        if (arch_.latent)
            add_latent_attention(prefix + "self_attention.", *arch_.latent, stage);
        else
            add_grouped_attention(prefix + "self_attention.", *arch_.grouped, stage);
        shards_.whole(
            prefix + (is_moe ? "pre_mlp_layernorm.weight" : "mlp.linear_fc1.layer_norm_weight"),
            names_.in_layer("post_attention_layernorm.weight"), all);
        if (is_moe)
            add_experts(prefix + "mlp.", *arch_.experts, stage);
        else
            add_mlp(prefix + "mlp.", names_.mlp("mlp."), stage.tensor);
    }

    void add_latent_attention(const std::string& prefix, const model::LatentAttention& latent,
                              const Stage& stage) {
        const RankSetId all = stage.all.front();
        if (latent.q_lora_rank) {
            shards_.whole(prefix + "linear_q_down_proj.weight",
                          names_.in_layer("self_attn.q_a_proj.weight"), all);
            shards_.whole(prefix + "linear_q_up_proj.layer_norm_weight",
                          names_.in_layer("self_attn.q_a_layernorm.weight"), all);
            shards_.by_rows(prefix + "linear_q_up_proj.weight",
                            {names_.in_layer("self_attn.q_b_proj.weight")}, stage.tensor);
        } else {
            shards_.by_rows(prefix + "linear_q_proj.weight",
                            {names_.in_layer("self_attn.q_proj.weight")}, stage.tensor);
        }
        shards_.whole(prefix + "linear_kv_down_proj.weight",
                      names_.in_layer("self_attn.kv_a_proj_with_mqa.weight"), all);
        shards_.whole(prefix + "linear_kv_up_proj.layer_norm_weight",
                      names_.in_layer("self_attn.kv_a_layernorm.weight"), all);
        shards_.by_rows(prefix + "linear_kv_up_proj.weight",
                        {names_.in_layer("self_attn.kv_b_proj.weight")}, stage.tensor);
        shards_.by_columns(prefix + "linear_proj.weight",
                           names_.in_layer("self_attn.o_proj.weight"), stage.tensor);
    }

    void add_grouped_attention(const std::string& prefix, const model::GroupedAttention& grouped,
                               const Stage& stage) {
        const auto add_qkv = [&](std::string_view kind) {
            const auto tensor = [&](char letter) {
                return names_.in_layer(fmt::format("self_attn.{}_proj.{}", letter, kind));
            };
            const TensorId q = tensor('q'), k = tensor('k'), v = tensor('v');
            for (std::size_t tp = 0; tp < stage.tensor.size(); ++tp)
                shards_.add(interleaved_qkv(fmt::format("{}linear_qkv.{}", prefix, kind), q, k, v,
                                            grouped, tp, stage.tensor));
        };
        add_qkv("weight");
        if (grouped.has_bias) add_qkv("bias");
        if (grouped.has_qk_norm)
            for (const char letter : {'q', 'k'})
                shards_.whole(fmt::format("{}{}_layernorm.weight", prefix, letter),
                              names_.in_layer(fmt::format("self_attn.{}_norm.weight", letter)),
                              stage.all.front());
        shards_.by_columns(prefix + "linear_proj.weight",
                           names_.in_layer("self_attn.o_proj.weight"), stage.tensor);
    }

    /// linear_qkv is [group][q heads of the group, one k head, one v head][head_dim]; a tp rank has
    /// an equal run of its rows, which may begin and end inside a group (kv heads < tp).
    [[nodiscard]] Parameter interleaved_qkv(std::string_view name, TensorId q, TensorId k,
                                            TensorId v, const model::GroupedAttention& grouped,
                                            std::size_t tp, const Family& family) const {
        const std::uint64_t d = grouped.head_dim;
        const std::uint64_t q_rows = arch_.heads / grouped.kv_heads * d;
        const std::uint64_t group_rows = q_rows + 2 * d;
        const Interval run = slice(grouped.kv_heads * group_rows, tp, family.size());
        Draft shard = shards_.draft(name, family[tp]);
        const std::uint64_t first = run.begin / group_rows, last = ceil_div(run.end, group_rows);
        shard.reserve(3 * (last - first));
        for (std::uint64_t group = first; group < last; ++group) {
            std::uint64_t row = group * group_rows;
            const auto append = [&](TensorId tensor, std::uint64_t rows) {
                const Interval here = intersect(run, {row, row + rows});
                if (!here.empty())
                    shard.rows(tensor,
                               {group * rows + here.begin - row, group * rows + here.end - row});
                row += rows;
            };
            append(q, q_rows);
            append(k, d);
            append(v, d);
        }
        return shard.take();
    }

    void add_mlp(const std::string& prefix, const GatedMlp& mlp, const Family& family) {
        shards_.by_rows(prefix + "linear_fc1.weight", {mlp.gate, mlp.up}, family);
        shards_.by_columns(prefix + "linear_fc2.weight", mlp.down, family);
    }

    void add_experts(const std::string& prefix, const model::Experts& experts, const Stage& stage) {
        const RankSetId all = stage.all.front();
        shards_.whole(prefix + "router.weight", names_.in_layer("mlp.gate.weight"), all);
        if (experts.has_score_bias)
            shards_.whole(prefix + "router.expert_bias",
                          names_.in_layer("mlp.gate.e_score_correction_bias"), all);
        const std::vector<GatedMlp> mlps = names_.experts(experts.routed);
        const auto etp = static_cast<std::size_t>(config_.expert_tp());
        const std::size_t per_ep = mlps.size() / static_cast<std::size_t>(config_.ep);
        std::string name = prefix + "experts.linear_fc1.weight";
        const std::size_t layer_digit = name.size() - std::string_view("1.weight").size();
        const std::size_t stem = name.size();
        for (const char layer : {'1', '2'}) {
            name[layer_digit] = layer;
            for (std::size_t e = 0; e < mlps.size(); ++e) {
                name.resize(stem);
                const fmt::format_int number(e);
                name.append(number.data(), number.size());
                const auto family = std::span(stage.experts).subspan(e / per_ep * etp, etp);
                if (layer == '1')
                    shards_.by_rows(name, {mlps[e].gate, mlps[e].up}, family);
                else
                    shards_.by_columns(name, mlps[e].down, family);
            }
        }
        // Shared experts are cut over the regular tp, not the experts'.
        if (experts.shared > 0)
            add_mlp(prefix + "shared_experts.", names_.mlp("mlp.shared_experts."), stage.tensor);
    }

    const ModelSpec& model_;
    const model::Architecture& arch_;
    const TrainerConfig& config_;
    LayoutBuilder builder_;
    Shards shards_;
    CheckpointNames names_;
    std::vector<Stage> stages_;
    std::vector<std::size_t> stage_of_layer_;
};

}  // namespace

Layout make_megatron_layout(const ModelSpec& model, const TrainerConfig& config) {
    check_megatron(require_architecture(model), config);
    return MegatronRules(model, config).make();
}

}  // namespace weightlift::layout
