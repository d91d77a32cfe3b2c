// Layout: for each rank of one side, its local parameters (fused as that framework fuses them) and
// the pieces of logical tensors they are made of.
//
// Ranks that hold the same bytes share one entry: a Parameter here is one *shard* (a parameter name
// with given pieces) together with the set of ranks that hold a copy of it. "Holder k of n" is the
// k-th rank of that set. Thus the size of a layout grows with its distinct shards, not with
// ranks x parameters, and building it costs milliseconds for a trillion-parameter model.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightlift/base/box.hpp"
#include "weightlift/base/bytes.hpp"
#include "weightlift/model/model_spec.hpp"

namespace weightlift::layout {

using model::ModelSpec;
using model::TensorId;
using ParameterIndex = std::uint32_t;
using RankSetId = std::uint32_t;

enum class Side : std::uint8_t { Trainer, Rollout };
[[nodiscard]] std::string_view to_string(Side side);

/// This box of this logical tensor lives at `offset` with `pitch` bytes from row to row, inside one
/// parameter. Row length is box.columns.size() * element bytes; pitch >= row length.
struct Piece {
    TensorId tensor = 0;
    Box box;
    Bytes offset = 0;
    Bytes pitch = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
};

/// Bytes of a parameter that belong to no logical tensor: zeroed at allocation, never written.
struct Padding {
    Bytes offset = 0;
    Bytes pitch = 0;
    std::uint64_t rows = 0;
    Bytes row_bytes = 0;
    friend bool operator==(const Padding&, const Padding&) = default;
};

/// A parameter's local shape, up to three dimensions, outermost first.
struct Shape {
    std::array<std::uint64_t, 3> sizes{};
    int dimensions = 0;
    [[nodiscard]] std::uint64_t elements() const;
    [[nodiscard]] std::span<const std::uint64_t> values() const {
        return {sizes.data(), static_cast<std::size_t>(dimensions)};
    }
    friend bool operator==(const Shape&, const Shape&) = default;
};

struct Parameter {
    std::string name;  ///< full name with global layer and expert numbers
    Shape shape;
    DType dtype = DType::BF16;
    std::string format = "plain";  ///< two sides whose formats differ are refused by name
    std::vector<Piece> pieces;
    std::vector<Padding> padding;
    RankSetId ranks = 0;  ///< which ranks hold a copy

    [[nodiscard]] Bytes bytes() const { return shape.elements() * element_bytes(dtype); }
};

/// Where a logical tensor occurs: piece `piece` of parameter `parameter`.
struct PieceRef {
    ParameterIndex parameter = 0;
    std::uint32_t piece = 0;
};

/// Immutable. Made by make_megatron_layout, make_sglang_layout, parse_layout, or a LayoutBuilder.
class Layout {
public:
    [[nodiscard]] Side side() const { return side_; }
    /// Canonical text of the configuration, e.g. "tp=8,pp=2"; part of a case's key.
    [[nodiscard]] const std::string& description() const { return description_; }
    [[nodiscard]] Rank world_size() const { return world_size_; }
    /// Rollout: first rank of each engine, ascending; an engine's ranks are contiguous. Trainer:
    /// {0}.
    [[nodiscard]] std::span<const Rank> engine_begins() const { return engine_begins_; }
    [[nodiscard]] int engine_of(Rank rank) const;
    [[nodiscard]] Rank engine_rank_of(Rank rank) const;

    [[nodiscard]] std::span<const Parameter> parameters() const { return parameters_; }
    [[nodiscard]] const Parameter& parameter(ParameterIndex i) const { return parameters_[i]; }
    /// The ranks of a set, ascending.
    [[nodiscard]] std::span<const Rank> rank_set(RankSetId id) const { return rank_sets_[id]; }
    /// How many different sets there are (ids are 0..n-1).
    [[nodiscard]] std::size_t rank_set_count() const { return rank_sets_.size(); }
    [[nodiscard]] bool holds(RankSetId id, Rank rank) const;

    /// Indices of the parameters of one rank, ascending: O(distinct shards).
    [[nodiscard]] std::vector<ParameterIndex> parameters_of(Rank rank) const;
    /// Every occurrence of a tensor, in parameter order.
    [[nodiscard]] std::span<const PieceRef> pieces_of(TensorId tensor) const;
    /// Payload plus padding bytes of one rank.
    [[nodiscard]] Bytes bytes_of(Rank rank) const;

    /// Over names, shapes, dtypes, formats, pieces and holders; equal for a layout read back.
    [[nodiscard]] std::uint64_t digest() const { return digest_; }

private:
    friend class LayoutBuilder;
    Layout() = default;
    Side side_ = Side::Trainer;
    std::string description_;
    Rank world_size_ = 0;
    std::vector<Rank> engine_begins_;
    std::vector<Parameter> parameters_;
    std::vector<std::vector<Rank>> rank_sets_;
    std::vector<PieceRef> piece_refs_;         ///< grouped by tensor
    std::vector<std::uint32_t> tensor_begin_;  ///< tensors + 1 offsets into piece_refs_
    std::uint64_t digest_ = 0;
};

/// Collects parameters, then checks and indexes them once.
class LayoutBuilder {
public:
    LayoutBuilder(Side side, std::string description, Rank world_size);
    /// Rollout only: starts a new engine at this rank (ascending, the first at 0).
    void begin_engine(Rank first);
    /// Interns an ascending, duplicate-free, non-empty set of ranks in [0, world_size).
    [[nodiscard]] RankSetId rank_set(std::vector<Rank> ranks);
    void add(Parameter parameter);
    void reserve(std::size_t parameters) { layout_.parameters_.reserve(parameters); }
    /// Checks, throwing ConfigError with parameter, value and rule: pieces inside their tensor, of
    /// the parameter's dtype, inside the parameter, and covering with the padding every byte of it
    /// exactly once; no rank has two parameters of one name.
    [[nodiscard]] Layout finish(const ModelSpec& model) &&;

private:
    Layout layout_;
    std::map<std::vector<Rank>, RankSetId> interned_;
};

}  // namespace weightlift::layout
