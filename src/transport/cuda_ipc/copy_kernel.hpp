// Many small pieces copied by one launch. Nothing here waits.
#pragma once

#include <cstddef>

#include "work.hpp"

struct CUstream_st;

namespace weightlift::transport::cuda_ipc {

/// `pieces` is an array in memory of the current device.
void launch_copy(CUstream_st* stream, int multiprocessors, const Piece* pieces, std::size_t count,
                 const std::byte* src, std::byte* dst);

}  // namespace weightlift::transport::cuda_ipc
