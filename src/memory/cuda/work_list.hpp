// A span of blocks as the kernels take it: cut into items of like size, one warp each, so that one
// launch does them all. Pure.
//
// A warp's lanes stand side by side on a row, 16 bytes each. Where rows are short, fewer lanes
// share a row and the warp takes several rows at once. An item is one strip (a warp's width) of
// kSteps such steps down the block; items are numbered block by block, then down, then across.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/memory/arena.hpp"

namespace weightlift::memory::cuda {

inline constexpr std::uint32_t kWarp = 32;
inline constexpr std::uint32_t kLaneBytes = 16;
inline constexpr std::uint64_t kSteps = 64;

/// A block in device memory. No padding, so that lists compare by value.
struct WorkBlock {
    Bytes offset = 0, pitch = 0;
    std::uint64_t rows = 0;
    Bytes row_bytes = 0;
    std::uint64_t first_row = 0, first_column = 0, tensor = 0;
    std::uint64_t first_element = 0;  ///< elements in the blocks before this one
    std::uint64_t strips = 0;         ///< items side by side
    std::uint32_t lane_bits = 0;      ///< log2 of the lanes on a row
    DType dtype = DType::F8E4M3;
    bool is_whole = false;  ///< all 16-byte accesses are aligned and inside rows
    std::array<std::uint8_t, 2> unused{};

    [[nodiscard]] constexpr std::uint64_t rows_per_item() const {
        return kSteps * (kWarp >> lane_bits);
    }
    friend bool operator==(const WorkBlock&, const WorkBlock&) = default;
};

/// What one lane does of an item: 16 bytes or less, of every side_by_side-th row.
struct LanePart {
    std::uint64_t begin = 0, rows = 0;  ///< the item's rows, within the block
    std::uint32_t side_by_side = 0;     ///< rows of one step
    std::uint32_t own_row = 0;          ///< the lane's first row, within the item
    std::uint32_t width = 0;            ///< 0: the lane stands beyond the row's end
    Bytes skip = 0;                     ///< from the start of the row
};

/// Run by the GPU. `item` counts from the block's first.
[[nodiscard]] constexpr LanePart lane_part(const WorkBlock& block, std::uint64_t item,
                                           std::uint32_t lane) {
    LanePart part;
    part.begin = item / block.strips * block.rows_per_item();
    const std::uint64_t left = block.rows - part.begin;
    part.rows = left < block.rows_per_item() ? left : block.rows_per_item();
    part.side_by_side = kWarp >> block.lane_bits;
    part.own_row = lane >> block.lane_bits;
    const std::uint32_t beside = lane & ((1U << block.lane_bits) - 1U);
    part.skip = ((item % block.strips << block.lane_bits) + beside) * kLaneBytes;
    if (part.skip < block.row_bytes) {
        const Bytes rest = block.row_bytes - part.skip;
        part.width = rest < kLaneBytes ? static_cast<std::uint32_t>(rest) : kLaneBytes;
    }
    return part;
}

struct WorkList {
    std::vector<WorkBlock> blocks;
    std::vector<std::uint64_t> first_item;  ///< blocks + 1: the last one is the number of items
    std::uint64_t elements = 0;

    [[nodiscard]] std::uint64_t items() const { return first_item.back(); }
    friend bool operator==(const WorkList&, const WorkList&) = default;
};

[[nodiscard]] WorkList make_work_list(std::span<const Block> blocks);
/// Elements are bytes.
[[nodiscard]] WorkList make_work_list(std::span<const ByteBlock> blocks);

/// An element by its number in the order of blocks, rows, columns.
struct Place {
    std::size_t block = 0;
    std::uint64_t row = 0, column = 0;  ///< within the block
    Bytes offset = 0;                   ///< in the arena
};
[[nodiscard]] Place place_of(const WorkList& list, std::uint64_t element);

}  // namespace weightlift::memory::cuda
