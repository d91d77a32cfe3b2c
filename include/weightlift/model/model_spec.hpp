// ModelSpec: the logical tensors of a model, named and shaped as in the Hugging Face checkpoint
// (unfused), plus the architecture numbers that the layout rules need.
// Invariant: the parameter count equals the published count, to the unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weightlift/base/box.hpp"
#include "weightlift/base/bytes.hpp"
#include "weightlift/base/dtype.hpp"

namespace weightlift::model {

using TensorId = std::uint32_t;

/// A logical tensor of one or two dimensions, row-major. 1-D: one row of `columns` elements.
struct TensorSpec {
    std::string name{};
    DType dtype = DType::BF16;
    int dimensions = 2;  ///< 1 or 2
    std::uint64_t rows = 1;
    std::uint64_t columns = 0;

    [[nodiscard]] Box box() const { return {{0, rows}, {0, columns}}; }
    [[nodiscard]] std::uint64_t elements() const { return rows * columns; }
    [[nodiscard]] Bytes bytes() const { return elements() * element_bytes(dtype); }
    friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Multi-head latent attention (DeepSeek). Ranks and head dimensions in elements.
struct LatentAttention {
    std::optional<std::uint64_t> q_lora_rank{};  ///< absent: one full q_proj
    std::uint64_t kv_lora_rank = 0;
    std::uint64_t qk_nope_head_dim = 0;
    std::uint64_t qk_rope_head_dim = 0;
    std::uint64_t v_head_dim = 0;
};

/// Grouped-query attention (Qwen3, GLM-4.5).
struct GroupedAttention {
    std::uint64_t kv_heads = 0;
    std::uint64_t head_dim = 0;  ///< from the config, never hidden_size / heads
    bool has_bias = false;       ///< q/k/v bias
    bool has_qk_norm = false;
};

struct Experts {
    std::uint64_t routed = 0;
    std::uint64_t shared = 0;  ///< number of shared experts, fused into one MLP; may be 0
    std::uint64_t intermediate_size = 0;  ///< of one expert
    bool has_score_bias = false;          ///< e_score_correction_bias, float32 [routed]
};

/// The numbers that shape tensors; exactly one of `latent` and `grouped` is set.
struct Architecture {
    std::string model_type{};  ///< deepseek_v2, deepseek_v3, kimi_k2, qwen3, qwen3_moe, glm4_moe
    std::uint64_t hidden_size = 0;
    std::uint64_t layers = 0;  ///< decoder layers, after --layers
    std::uint64_t dense_layers =
        0;  ///< the first ones, with a dense MLP; == layers without experts
    std::uint64_t heads = 0;
    std::uint64_t intermediate_size = 0;  ///< of dense MLPs
    std::uint64_t vocab_size = 0;
    std::uint64_t mtp_layers = 0;  ///< multi-token-prediction layers kept (0 unless asked for)
    bool tied_embeddings = false;
    std::optional<LatentAttention> latent{};
    std::optional<GroupedAttention> grouped{};
    std::optional<Experts> experts{};

    [[nodiscard]] bool is_moe_layer(std::uint64_t layer) const {
        return experts.has_value() && layer >= dense_layers;
    }
};

/// Immutable once built. Tensor ids are indices into tensors(), in checkpoint order.
class ModelSpec {
public:
    /// A bare tensor list (layout files of unknown architectures). Names must be unique; sizes
    /// positive, columns below kMaxColumns, total bytes in 64 bits; otherwise ConfigError.
    ModelSpec(std::string name, std::vector<TensorSpec> tensors,
              std::optional<Architecture> architecture);

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return tensors_; }
    [[nodiscard]] const TensorSpec& tensor(TensorId id) const { return tensors_[id]; }
    /// hash_name of the tensor's name, cached: the key of its values and fingerprint.
    [[nodiscard]] std::uint64_t key(TensorId id) const { return keys_[id]; }
    [[nodiscard]] std::optional<TensorId> find(std::string_view name) const;
    /// As find, but absence is our bug.
    [[nodiscard]] TensorId id(std::string_view name) const;
    /// Absent for a bare tensor list.
    [[nodiscard]] const std::optional<Architecture>& architecture() const { return architecture_; }

    /// Parameters as published: float32 buffers (e_score_correction_bias) count too.
    [[nodiscard]] std::uint64_t parameter_count() const { return parameters_; }
    [[nodiscard]] Bytes bytes() const { return bytes_; }

private:
    std::string name_;
    std::vector<TensorSpec> tensors_;
    std::vector<std::uint64_t> keys_;
    std::optional<Architecture> architecture_;
    std::unordered_map<std::string_view, TensorId> ids_;  ///< views into tensors_
    std::uint64_t parameters_ = 0;
    Bytes bytes_ = 0;

public:
    ModelSpec(ModelSpec&&) = default;  // moving the vector keeps the views valid
    ModelSpec& operator=(ModelSpec&&) = default;
    ModelSpec(const ModelSpec&) = delete;
    ModelSpec& operator=(const ModelSpec&) = delete;
    ~ModelSpec() = default;
};

}  // namespace weightlift::model
