// Layouts written by hand, one line per shard, for tests that compute their expectations on paper.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weightlift/layout/layout.hpp"

namespace weightlift::test {

/// A parameter that is one box of one tensor, without gaps.
struct HandShard {
    std::string name;
    std::string tensor;
    Box box;
    std::vector<Rank> ranks;
    std::string format = "plain";
};

inline model::TensorSpec matrix(std::string name, std::uint64_t rows, std::uint64_t columns,
                                DType dtype = DType::BF16) {
    return {std::move(name), dtype, 2, rows, columns};
}
inline model::TensorSpec vector_of(std::string name, std::uint64_t columns,
                                   DType dtype = DType::BF16) {
    return {std::move(name), dtype, 1, 1, columns};
}
inline model::ModelSpec hand_model(std::vector<model::TensorSpec> tensors) {
    return model::ModelSpec("by-hand", std::move(tensors), std::nullopt);
}

inline layout::Layout hand_layout(layout::Side side, const model::ModelSpec& model, Rank world,
                                  const std::vector<HandShard>& shards,
                                  const std::vector<Rank>& engine_begins = {0}) {
    layout::LayoutBuilder builder(side, "by-hand", world);
    if (side == layout::Side::Rollout)
        for (const Rank first : engine_begins) builder.begin_engine(first);
    for (const HandShard& shard : shards) {
        const model::TensorId tensor = model.id(shard.tensor);
        const model::TensorSpec& spec = model.tensor(tensor);
        layout::Parameter parameter;
        parameter.name = shard.name;
        parameter.dtype = spec.dtype;
        parameter.format = shard.format;
        parameter.shape =
            spec.dimensions == 1
                ? layout::Shape{{shard.box.columns.size(), 0, 0}, 1}
                : layout::Shape{{shard.box.rows.size(), shard.box.columns.size(), 0}, 2};
        parameter.pieces.push_back(
            {tensor, shard.box, 0, shard.box.columns.size() * element_bytes(spec.dtype)});
        parameter.ranks = builder.rank_set(shard.ranks);
        builder.add(std::move(parameter));
    }
    return std::move(builder).finish(model);
}

}  // namespace weightlift::test
