#include "pieces.hpp"

#include <algorithm>

namespace weightlift::transport {

void cut_into_pieces(const plan::Copy& copy, std::vector<Piece>& pieces) {
    if (copy.row_bytes > kPieceBytes) {
        for (std::uint64_t row = 0; row < copy.rows; ++row)
            for (Bytes at = 0; at < copy.row_bytes; at += kPieceBytes) {
                const Bytes n = std::min(kPieceBytes, copy.row_bytes - at);
                pieces.push_back({copy.src_offset + row * copy.src_pitch + at,
                                  copy.dst_offset + row * copy.dst_pitch + at, n, n, 1,
                                  static_cast<std::uint32_t>(n)});
            }
        return;
    }
    const std::uint64_t step = kPieceBytes / copy.row_bytes;
    for (std::uint64_t row = 0; row < copy.rows; row += step)
        pieces.push_back({copy.src_offset + row * copy.src_pitch,
                          copy.dst_offset + row * copy.dst_pitch, copy.src_pitch, copy.dst_pitch,
                          static_cast<std::uint32_t>(std::min(step, copy.rows - row)),
                          static_cast<std::uint32_t>(copy.row_bytes)});
}

}  // namespace weightlift::transport
