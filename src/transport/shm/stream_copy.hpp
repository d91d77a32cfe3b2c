// Copies between mappings of one host, past the caches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightlift/base/bytes.hpp"

namespace weightlift::transport::shm {

/// Copies `rows` rows. The stores may still be under way: order_stores() makes them precede any
/// store after it.
void stream_rows(std::byte* dst, Bytes dst_pitch, const std::byte* src, Bytes src_pitch,
                 std::uint64_t rows, Bytes row_bytes);

/// One long row.
void stream_bytes(std::byte* dst, const std::byte* src, Bytes bytes);

void order_stores();

}  // namespace weightlift::transport::shm
