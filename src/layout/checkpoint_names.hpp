// Ids of logical tensors by their Hugging Face names, built from a layer's prefix and a suffix.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weightlift/model/model_spec.hpp"

namespace weightlift::layout {

/// The three matrices of one gated MLP.
struct GatedMlp {
    model::TensorId gate = 0, up = 0, down = 0;
};

/// Looks names up with a guess first: checkpoints list a layer's tensors one after the other, so
/// the next id is nearly always right, and comparing is cheaper than hashing 70,000 names.
class CheckpointNames {
public:
    explicit CheckpointNames(const model::ModelSpec& model) : model_(model) {}

    /// Names below are relative to this layer, until the next call.
    void enter_layer(std::uint64_t layer);
    /// "model.layers.{layer}." + suffix; absence is our bug.
    [[nodiscard]] model::TensorId in_layer(std::string_view suffix);
    [[nodiscard]] model::TensorId operator()(std::string_view name) const {
        return model_.id(name);
    }
    /// Matrices below e.g. "mlp.shared_experts.".
    [[nodiscard]] GatedMlp mlp(std::string_view infix);
    /// Matrices of "mlp.experts.{0..count-1}.".
    [[nodiscard]] std::vector<GatedMlp> experts(std::uint64_t count);

private:
    const model::ModelSpec& model_;
    std::string name_;
    std::size_t prefix_size_ = 0;
    std::size_t next_ = 0;
};

}  // namespace weightlift::layout
