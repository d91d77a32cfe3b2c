// Shards: what both frameworks' rules are written in. A parameter is cut over a *family* of rank
// sets, shard i of n going to the i-th set; a family of one set is a whole, replicated copy.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightlift/layout/layout.hpp"

namespace weightlift::layout {

using Family = std::vector<RankSetId>;

/// [n*i/parts, n*(i+1)/parts); parts must divide n.
[[nodiscard]] Interval slice(std::uint64_t n, std::size_t i, std::size_t parts);

/// One parameter in the making: slices of logical tensors, one below the other. Used once: take
/// moves it out.
class Draft {
public:
    Draft(const ModelSpec& model, std::string_view name, RankSetId ranks);

    /// These rows of a matrix, or these elements of a vector.
    Draft& rows(TensorId tensor, Interval rows);
    /// These columns of all rows of a matrix.
    Draft& columns(TensorId tensor, Interval columns);
    Draft& whole(TensorId tensor);
    Draft& pad_rows(std::uint64_t rows);
    void reserve(std::size_t pieces) { parameter_.pieces.reserve(pieces); }

    [[nodiscard]] Parameter take();
    /// As take, the rows grouped into `count` equal slabs: a shape of three dimensions.
    [[nodiscard]] Parameter take_stacked(std::uint64_t count);

private:
    void append(TensorId tensor, const Box& box, std::uint64_t rows, std::uint64_t columns);

    const ModelSpec& model_;
    Parameter parameter_;
    std::uint64_t rows_ = 0;
    std::uint64_t columns_ = 0;  ///< 0 for a vector
    std::uint64_t element_bytes_ = 0;
};

class Shards {
public:
    Shards(const ModelSpec& model, LayoutBuilder& builder) : model_(model), builder_(builder) {}

    /// Shard i = the i-th slice of the rows of each tensor, one below the other: column-parallel
    /// layers, [gate; up], and with one set whole tensors.
    void by_rows(std::string_view name, std::initializer_list<TensorId> tensors,
                 std::span<const RankSetId> family);
    /// Shard i = the i-th slice of the columns: row-parallel layers.
    void by_columns(std::string_view name, TensorId tensor, std::span<const RankSetId> family);
    /// Rows padded with zeros to `padded`, which the family divides, then cut by rows.
    void vocabulary(std::string_view name, TensorId tensor, std::uint64_t padded,
                    std::span<const RankSetId> family);
    void whole(std::string_view name, TensorId tensor, RankSetId ranks);

    [[nodiscard]] Draft draft(std::string_view name, RankSetId ranks) const {
        return Draft(model_, name, ranks);
    }
    void add(Parameter parameter) { builder_.add(std::move(parameter)); }

private:
    const ModelSpec& model_;
    LayoutBuilder& builder_;
};

}  // namespace weightlift::layout
