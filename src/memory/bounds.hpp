// Every access of an arena's bulk operations lies inside it: checked once per call, before any.
#pragma once

#include <span>

#include "weightlift/memory/arena.hpp"

namespace weightlift::memory {

inline void check_inside(const ByteBlock& block, Bytes arena_bytes) {
    if (block.rows == 0 || block.row_bytes == 0) return;
    WEIGHTLIFT_ENSURES(block.rows == 1 || block.pitch >= block.row_bytes);
    const Bytes span = checked_add(checked_mul(block.rows - 1, block.pitch, "span of a block"),
                                   block.row_bytes, "span of a block");
    WEIGHTLIFT_ENSURES(block.offset <= arena_bytes && span <= arena_bytes - block.offset);
}

inline void check_inside(std::span<const ByteBlock> blocks, Bytes arena_bytes) {
    for (const ByteBlock& block : blocks) check_inside(block, arena_bytes);
}

inline void check_inside(std::span<const Block> blocks, Bytes arena_bytes) {
    for (const Block& block : blocks)
        check_inside({block.offset, block.pitch, block.box.rows.size(),
                      block.box.columns.size() * element_bytes(block.dtype)},
                     arena_bytes);
}

}  // namespace weightlift::memory
