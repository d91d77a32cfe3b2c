// Generated models and layouts for property tests: not those of any framework, so that the planner
// is tested on what its contract says and not on what the rules happen to produce.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weightlift/layout/layout.hpp"

namespace weightlift::test {

using Random = std::mt19937_64;

inline std::uint64_t pick(Random& random, std::uint64_t low, std::uint64_t high) {
    return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
}

struct SizeRange {
    std::uint64_t low = 1, high = 1;
};

/// A bare tensor list; pairs of tensors (2i, 2i+1) have equal columns, so that they can be fused.
inline model::ModelSpec random_model(Random& random, int tensors, SizeRange rows,
                                     SizeRange columns) {
    std::vector<model::TensorSpec> specs;
    std::uint64_t width = 0;
    for (int i = 0; i < tensors; ++i) {
        model::TensorSpec spec;
        spec.name = "t" + std::to_string(i);
        if (i % 2 == 0) width = pick(random, columns.low, columns.high);
        spec.rows = pick(random, rows.low, rows.high);
        spec.columns = width;
        if (pick(random, 0, 9) == 0 && i % 2 == 1) {
            spec.dimensions = 1;
            spec.columns = spec.rows * width;
            spec.rows = 1;
        }
        specs.push_back(spec);
    }
    return model::ModelSpec("random", std::move(specs), std::nullopt);
}

/// Cuts [0, size) into `parts` intervals, some possibly empty unless size >= parts.
inline std::vector<Interval> random_cuts(Random& random, std::uint64_t size, std::uint64_t parts) {
    std::vector<std::uint64_t> at{0, size};
    for (std::uint64_t i = 1; i < parts; ++i)
        at.push_back(random() % 2 == 0 ? size * i / parts : pick(random, 0, size));
    std::sort(at.begin(), at.end());
    std::vector<Interval> cuts;
    for (std::size_t i = 0; i + 1 < at.size(); ++i) cuts.push_back({at[i], at[i + 1]});
    return cuts;
}

/// Each pair of tensors is placed on a subset of the ranks, sharded there by rows or columns over
/// some and replicated over the others, fused into one parameter or kept apart. `has_copies`: some
/// tensors stand once more, whole, in a parameter of their own on other ranks (as tied embeddings).
inline layout::Layout random_layout(Random& random, layout::Side side,
                                    const model::ModelSpec& model, Rank world, bool is_even = false,
                                    bool has_copies = false) {
    layout::LayoutBuilder builder(side, "random", world);
    if (side == layout::Side::Rollout) builder.begin_engine(0);
    for (model::TensorId t = 0; t < model.tensors().size(); t += 2) {
        const auto members = pick(random, 1, static_cast<std::uint64_t>(world));
        const auto first = pick(random, 0, static_cast<std::uint64_t>(world) - members);
        std::vector<std::uint64_t> divisors;
        for (std::uint64_t d = 1; d <= members; ++d)
            if (members % d == 0) divisors.push_back(d);
        const std::uint64_t shards = divisors[pick(random, 0, divisors.size() - 1)];
        const bool is_fused = t + 1 < model.tensors().size() &&
                              model.tensor(t + 1).dimensions == 2 && random() % 2 == 0;
        const bool by_rows = random() % 2 == 0;
        std::vector<std::vector<Interval>> cuts;
        for (model::TensorId u = t; u < std::min<std::size_t>(t + 2, model.tensors().size()); ++u) {
            const auto& spec = model.tensor(u);
            const auto size = by_rows && spec.dimensions == 2 ? spec.rows : spec.columns;
            if (is_even || (is_fused && !by_rows)) {
                std::vector<Interval> even;
                for (std::uint64_t i = 0; i < shards; ++i)
                    even.push_back({size * i / shards, size * (i + 1) / shards});
                cuts.push_back(even);
            } else {
                cuts.push_back(random_cuts(random, size, shards));
            }
        }
        for (std::uint64_t s = 0; s < shards; ++s) {
            std::vector<Rank> ranks;
            for (std::uint64_t m = s; m < members; m += shards)
                ranks.push_back(static_cast<Rank>(first + m));
            const auto set = builder.rank_set(ranks);
            layout::Parameter parameter;
            for (std::size_t i = 0; i < cuts.size(); ++i) {
                const auto id = static_cast<model::TensorId>(t + i);
                const auto& spec = model.tensor(id);
                Box box = spec.box();
                (by_rows && spec.dimensions == 2 ? box.rows : box.columns) = cuts[i][s];
                const std::uint64_t rows = box.rows.size(), columns = box.columns.size();
                if (rows * columns > 0)
                    parameter.pieces.push_back(
                        {id, box, parameter.shape.sizes[0] * columns * 2, columns * 2});
                parameter.shape.dimensions = 2;
                parameter.shape.sizes[0] += rows * columns > 0 ? rows : 0;
                parameter.shape.sizes[1] = columns;
                if (is_fused && i == 0 && rows * columns > 0) continue;
                if (parameter.pieces.empty()) continue;
                parameter.name = spec.name + (is_fused ? ".fused" : ".weight");
                parameter.ranks = set;
                builder.add(std::exchange(parameter, {}));
            }
        }
    }
    for (model::TensorId t = 0; has_copies && t < model.tensors().size(); ++t) {
        if (pick(random, 0, 3) != 0) continue;
        const auto& spec = model.tensor(t);
        const auto first = pick(random, 0, static_cast<std::uint64_t>(world) - 1);
        std::vector<Rank> ranks;
        for (auto r = static_cast<Rank>(first); r < world; r += 2) ranks.push_back(r);
        layout::Parameter copy;
        copy.name = spec.name + ".copy";
        copy.shape = {{spec.rows, spec.columns, 0}, 2};
        copy.pieces.push_back({t, spec.box(), 0, spec.columns * 2});
        copy.ranks = builder.rank_set(ranks);
        builder.add(std::move(copy));
    }
    return std::move(builder).finish(model);
}

}  // namespace weightlift::test
