#include "strided.hpp"

#include <cstring>

namespace weightlift::transport {

plan::Copy join_rows(plan::Copy copy) {
    if (copy.rows == 1 || (copy.src_pitch == copy.row_bytes && copy.dst_pitch == copy.row_bytes)) {
        copy.row_bytes *= copy.rows;
        copy.src_pitch = copy.dst_pitch = copy.row_bytes;
        copy.rows = 1;
    }
    return copy;
}

void copy_rows(std::byte* dst, Bytes dst_pitch, const std::byte* src, Bytes src_pitch,
               std::uint64_t rows, Bytes row_bytes) {
    for (std::uint64_t row = 0; row < rows; ++row)
        std::memcpy(dst + row * dst_pitch, src + row * src_pitch, row_bytes);
}

}  // namespace weightlift::transport
