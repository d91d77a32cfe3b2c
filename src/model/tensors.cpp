#include <utility>

#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/model/config.hpp"

namespace weightlift::model {
namespace {

/// Thirty times Kimi-K2. Keeps a hostile config from eating memory: a tensor costs about 200 bytes.
constexpr std::uint64_t kMaxTensors = 2'000'000;
/// At least what a layer of any family has besides its routed experts, MTP projections included.
constexpr std::uint64_t kMaxTensorsBesideExperts = 24;

/// An upper bound, to refuse and to reserve by before anything is allocated.
std::uint64_t bound_tensors(const Architecture& a) {
    const std::uint64_t layers = checked_add(a.layers, a.mtp_layers, "layers");
    const std::uint64_t experts = a.experts ? a.experts->routed : 0;
    if (experts > kMaxTensors || layers > kMaxTensors / (3 * experts + kMaxTensorsBesideExperts))
        throw ConfigError(
            fmt::format("{} layers with {} routed experts each are too many, a model may have "
                        "at most {} tensors",
                        layers, experts, kMaxTensors));
    return layers * (3 * experts + kMaxTensorsBesideExperts) + 3;  // embed_tokens, norm, lm_head
}

class TensorList {
public:
    TensorList(DType dtype, std::uint64_t capacity) : dtype_(dtype) { tensors_.reserve(capacity); }

    void vector(const std::string& scope, std::string_view leaf, std::uint64_t elements) {
        add(scope, leaf, dtype_, 1, 1, elements);
    }
    void matrix(const std::string& scope, std::string_view leaf, std::uint64_t rows,
                std::uint64_t columns) {
        add(scope, leaf, dtype_, 2, rows, columns);
    }
    /// A buffer that the model keeps in float32, whatever its weights are in.
    void float32_vector(const std::string& scope, std::string_view leaf, std::uint64_t elements) {
        add(scope, leaf, DType::F32, 1, 1, elements);
    }

    [[nodiscard]] std::vector<TensorSpec> take() { return std::move(tensors_); }

private:
    void add(const std::string& scope, std::string_view leaf, DType dtype, int dimensions,
             std::uint64_t rows, std::uint64_t columns) {
        std::string name;
        name.reserve(scope.size() + leaf.size());
        name.append(scope).append(leaf);
        tensors_.push_back({std::move(name), dtype, dimensions, rows, columns});
    }

    DType dtype_;
    std::vector<TensorSpec> tensors_;
};

void add_latent_attention(TensorList& list, const Architecture& a, const std::string& scope) {
    const LatentAttention& latent = *a.latent;
    const std::uint64_t nope = latent.qk_nope_head_dim;
    const std::uint64_t rope = latent.qk_rope_head_dim;
    const std::uint64_t q_rows =
        checked_mul(a.heads, checked_add(nope, rope, "head dimension of q"), "rows of q");
    const std::uint64_t kv_a_rows = checked_add(latent.kv_lora_rank, rope, "rows of kv_a");
    const std::uint64_t kv_b_rows = checked_mul(
        a.heads, checked_add(nope, latent.v_head_dim, "head dimension of kv_b"), "rows of kv_b");

    if (const auto q_lora_rank = latent.q_lora_rank) {
        list.matrix(scope, "q_a_proj.weight", *q_lora_rank, a.hidden_size);
        list.vector(scope, "q_a_layernorm.weight", *q_lora_rank);
        list.matrix(scope, "q_b_proj.weight", q_rows, *q_lora_rank);
    } else {
        list.matrix(scope, "q_proj.weight", q_rows, a.hidden_size);
    }
    list.matrix(scope, "kv_a_proj_with_mqa.weight", kv_a_rows, a.hidden_size);
    list.vector(scope, "kv_a_layernorm.weight", latent.kv_lora_rank);
    list.matrix(scope, "kv_b_proj.weight", kv_b_rows, latent.kv_lora_rank);
    list.matrix(scope, "o_proj.weight", a.hidden_size,
                checked_mul(a.heads, latent.v_head_dim, "columns of o_proj"));
}

void add_grouped_attention(TensorList& list, const Architecture& a, const std::string& scope) {
    const GroupedAttention& grouped = *a.grouped;
    const std::uint64_t q_rows = checked_mul(a.heads, grouped.head_dim, "rows of q_proj");
    const std::uint64_t kv_rows = checked_mul(grouped.kv_heads, grouped.head_dim, "rows of k_proj");

    list.matrix(scope, "q_proj.weight", q_rows, a.hidden_size);
    list.matrix(scope, "k_proj.weight", kv_rows, a.hidden_size);
    list.matrix(scope, "v_proj.weight", kv_rows, a.hidden_size);
    if (grouped.has_bias) {
        list.vector(scope, "q_proj.bias", q_rows);
        list.vector(scope, "k_proj.bias", kv_rows);
        list.vector(scope, "v_proj.bias", kv_rows);
    }
    if (grouped.has_qk_norm) {
        list.vector(scope, "q_norm.weight", grouped.head_dim);
        list.vector(scope, "k_norm.weight", grouped.head_dim);
    }
    list.matrix(scope, "o_proj.weight", a.hidden_size, q_rows);
}

void add_mlp(TensorList& list, const std::string& scope, std::uint64_t hidden,
             std::uint64_t intermediate) {
    list.matrix(scope, "gate_proj.weight", intermediate, hidden);
    list.matrix(scope, "up_proj.weight", intermediate, hidden);
    list.matrix(scope, "down_proj.weight", hidden, intermediate);
}

void add_experts(TensorList& list, const Architecture& a, const std::string& scope) {
    const Experts& experts = *a.experts;
    list.matrix(scope, "gate.weight", experts.routed, a.hidden_size);
    if (experts.has_score_bias)
        list.float32_vector(scope, "gate.e_score_correction_bias", experts.routed);
    for (std::uint64_t e = 0; e < experts.routed; ++e)
        add_mlp(list, fmt::format("{}experts.{}.", scope, e), a.hidden_size,
                experts.intermediate_size);
    if (experts.shared > 0)
        add_mlp(list, scope + "shared_experts.", a.hidden_size,
                checked_mul(experts.shared, experts.intermediate_size, "shared expert size"));
}

void add_decoder_layer(TensorList& list, const Architecture& a, std::uint64_t layer,
                       const std::string& scope) {
    list.vector(scope, "input_layernorm.weight", a.hidden_size);
    if (a.latent)
        add_latent_attention(list, a, scope + "self_attn.");
    else
        add_grouped_attention(list, a, scope + "self_attn.");
    list.vector(scope, "post_attention_layernorm.weight", a.hidden_size);
    if (a.is_moe_layer(layer))
        add_experts(list, a, scope + "mlp.");
    else
        add_mlp(list, scope + "mlp.", a.hidden_size, a.intermediate_size);
}

/// Numbered on from the decoder layers. The checkpoint repeats embed_tokens and shared_head.head
/// here; they are the same tensors as the model's embedding and head, hence not listed again.
void add_mtp_layer(TensorList& list, const Architecture& a, std::uint64_t layer,
                   const std::string& scope) {
    list.vector(scope, "enorm.weight", a.hidden_size);
    list.vector(scope, "hnorm.weight", a.hidden_size);
    list.matrix(scope, "eh_proj.weight", a.hidden_size,
                checked_mul(2, a.hidden_size, "columns of eh_proj"));
    add_decoder_layer(list, a, layer, scope);
    list.vector(scope, "shared_head.norm.weight", a.hidden_size);
}

}  // namespace

std::vector<TensorSpec> make_tensors(const Architecture& a, DType dtype) {
    WEIGHTLIFT_ENSURES(a.latent.has_value() != a.grouped.has_value());
    WEIGHTLIFT_ENSURES(a.dense_layers == a.layers ||
                       (a.experts.has_value() && a.dense_layers < a.layers));
    const auto scope = [](std::uint64_t layer) { return fmt::format("model.layers.{}.", layer); };

    TensorList list(dtype, bound_tensors(a));
    list.matrix("model.", "embed_tokens.weight", a.vocab_size, a.hidden_size);
    for (std::uint64_t layer = 0; layer < a.layers; ++layer)
        add_decoder_layer(list, a, layer, scope(layer));
    list.vector("model.", "norm.weight", a.hidden_size);
    if (!a.tied_embeddings) list.matrix("", "lm_head.weight", a.vocab_size, a.hidden_size);
    for (std::uint64_t layer = a.layers; layer < a.layers + a.mtp_layers; ++layer)
        add_mtp_layer(list, a, layer, scope(layer));
    return list.take();
}

}  // namespace weightlift::model
