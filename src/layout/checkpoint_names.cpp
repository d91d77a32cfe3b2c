#include "checkpoint_names.hpp"

#include <fmt/format.h>

namespace weightlift::layout {

using model::TensorId;

void CheckpointNames::enter_layer(std::uint64_t layer) {
    name_ = fmt::format("model.layers.{}.", layer);
    prefix_size_ = name_.size();
}

TensorId CheckpointNames::in_layer(std::string_view suffix) {
    name_.resize(prefix_size_);
    name_ += suffix;
    const auto& tensors = model_.tensors();
    if (next_ >= tensors.size() || tensors[next_].name != name_) next_ = model_.id(name_);
    return static_cast<TensorId>(next_++);
}

GatedMlp CheckpointNames::mlp(std::string_view infix) {
    std::string suffix(infix);
    const auto matrix = [&](std::string_view name) {
        suffix.resize(infix.size());
        suffix += name;
        return in_layer(suffix);
    };
    GatedMlp mlp;
    mlp.gate = matrix("gate_proj.weight");
    mlp.up = matrix("up_proj.weight");
    mlp.down = matrix("down_proj.weight");
    return mlp;
}

std::vector<GatedMlp> CheckpointNames::experts(std::uint64_t count) {
    std::vector<GatedMlp> experts(count);
    std::string infix;
    for (std::uint64_t e = 0; e < count; ++e) {
        const fmt::format_int number(e);
        infix.assign("mlp.experts.").append(number.data(), number.size()).append(".");
        experts[e] = mlp(infix);
    }
    return experts;
}

}  // namespace weightlift::layout
