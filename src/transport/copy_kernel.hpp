// Many small pieces copied by one launch, for backends over GPU memory. Nothing here waits.
#pragma once

#include <cstddef>

#include "pieces.hpp"

struct CUstream_st;

namespace weightlift::transport {

/// `pieces` is an array in memory of the current device.
void launch_copy(CUstream_st* stream, int multiprocessors, const Piece* pieces, std::size_t count,
                 const std::byte* src, std::byte* dst);

}  // namespace weightlift::transport
