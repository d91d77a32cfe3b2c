// Rows between GPU and host memory, on a stream. A build without CUDA has these names only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightlift/base/bytes.hpp"
#include "weightlift/cuda/stream.hpp"

namespace weightlift::cuda {

/// Host memory of somebody else's, page-locked while this lives, so that copies from and to it are
/// asynchronous and run at the bus's rate.
class Pinned {
public:
    /// ConfigError where the system does not lock so much.
    Pinned(std::byte* at, Bytes bytes);
    ~Pinned();
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;

private:
    std::byte* at_;
};

/// Either end may be GPU or pinned host memory.
void copy_rows(const Stream& stream, std::byte* dst, Bytes dst_pitch, const std::byte* src,
               Bytes src_pitch, std::uint64_t rows, Bytes row_bytes);

}  // namespace weightlift::cuda
