#include "weightlift/cuda/copy.hpp"

#include <cuda_runtime_api.h>

#include "weightlift/cuda/error.hpp"

namespace weightlift::cuda {

Pinned::Pinned(std::byte* at, Bytes bytes) : at_(bytes > 0 ? at : nullptr) {
    if (at_ != nullptr)
        check(cudaHostRegister(at_, bytes, cudaHostRegisterPortable), "cudaHostRegister");
}
Pinned::~Pinned() {
    if (at_ != nullptr) warn(cudaHostUnregister(at_), "cudaHostUnregister");
}

void copy_rows(const Stream& stream, std::byte* dst, Bytes dst_pitch, const std::byte* src,
               Bytes src_pitch, std::uint64_t rows, Bytes row_bytes) {
    // Longer pitches are refused by the strided call; such rows are long, and few.
    constexpr Bytes kMostPitch = Bytes{1} << 30;
    if (rows > 1 && dst_pitch <= kMostPitch && src_pitch <= kMostPitch) {
        check(cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, row_bytes, rows, cudaMemcpyDefault,
                                stream.get()),
              "cudaMemcpy2DAsync");
        return;
    }
    for (std::uint64_t row = 0; row < rows; ++row)
        check(cudaMemcpyAsync(dst + row * dst_pitch, src + row * src_pitch, row_bytes,
                              cudaMemcpyDefault, stream.get()),
              "cudaMemcpyAsync");
}

}  // namespace weightlift::cuda
