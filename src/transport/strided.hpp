// Rows of host memory, and copies made of rows, as several backends take them.
#pragma once

#include <cstddef>

#include "weightlift/plan/copy.hpp"

namespace weightlift::transport {

/// The same bytes as one row, where rows follow each other at both ends.
[[nodiscard]] plan::Copy join_rows(plan::Copy copy);

/// By the processor, at once.
void copy_rows(std::byte* dst, Bytes dst_pitch, const std::byte* src, Bytes src_pitch,
               std::uint64_t rows, Bytes row_bytes);

}  // namespace weightlift::transport
