// Copies as a kernel does them: cut into pieces of about equal work. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "weightlift/plan/copy.hpp"

namespace weightlift::transport {

/// A part of the kernel's work, of at most kPieceBytes.
struct Piece {
    Bytes src_offset = 0, dst_offset = 0;
    Bytes src_pitch = 0, dst_pitch = 0;
    std::uint32_t rows = 0, row_bytes = 0;
};
inline constexpr Bytes kPieceBytes = 64 * KiB;

/// Appends the pieces of a copy that is not empty.
void cut_into_pieces(const plan::Copy& copy, std::vector<Piece>& pieces);

}  // namespace weightlift::transport
