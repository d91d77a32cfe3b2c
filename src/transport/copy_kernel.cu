#include <algorithm>

#include "weightlift/cuda/error.hpp"

#include "copy_kernel.hpp"

namespace weightlift::transport {
namespace {

constexpr int kThreads = 512;
constexpr int kUnroll = 4;  // loads under way per thread: 32 KiB per block
constexpr int kResident = 4;

/// All addresses and lengths are multiples of V.
template <class V>
__device__ void copy_rows(const Piece& piece, const std::byte* src, std::byte* dst) {
    const std::uint32_t per_row = piece.row_bytes / sizeof(V);
    const std::uint32_t total = per_row * piece.rows;
    const auto place = [per_row](std::uint32_t i, Bytes pitch) {
        const std::uint32_t row = i / per_row;
        return row * pitch + Bytes{i - row * per_row} * sizeof(V);
    };
    for (std::uint32_t begin = threadIdx.x; begin < total; begin += kThreads * kUnroll) {
        V values[kUnroll];
#pragma unroll
        for (std::uint32_t u = 0; u < kUnroll; ++u) {
            const std::uint32_t i = begin + u * kThreads;
            if (i < total) values[u] = *reinterpret_cast<const V*>(src + place(i, piece.src_pitch));
        }
#pragma unroll
        for (std::uint32_t u = 0; u < kUnroll; ++u) {
            const std::uint32_t i = begin + u * kThreads;
            if (i < total) *reinterpret_cast<V*>(dst + place(i, piece.dst_pitch)) = values[u];
        }
    }
}

__global__ void __launch_bounds__(kThreads, kResident)
    copy_pieces(const Piece* pieces, std::size_t count, const std::byte* src, std::byte* dst) {
    for (std::size_t i = blockIdx.x; i < count; i += gridDim.x) {
        const Piece piece = pieces[i];
        const std::byte* const from = src + piece.src_offset;
        std::byte* const to = dst + piece.dst_offset;
        const Bytes bits = reinterpret_cast<Bytes>(from) | reinterpret_cast<Bytes>(to) |
                           piece.src_pitch | piece.dst_pitch | piece.row_bytes;
        if (bits % 16 == 0)
            copy_rows<uint4>(piece, from, to);
        else if (bits % 4 == 0)
            copy_rows<std::uint32_t>(piece, from, to);
        else if (bits % 2 == 0)
            copy_rows<std::uint16_t>(piece, from, to);
        else
            copy_rows<std::uint8_t>(piece, from, to);
    }
}

}  // namespace

void launch_copy(CUstream_st* stream, int multiprocessors, const Piece* pieces, std::size_t count,
                 const std::byte* src, std::byte* dst) {
    const auto blocks = static_cast<unsigned>(
        std::min<std::size_t>(count, static_cast<std::size_t>(multiprocessors) * kResident));
    copy_pieces<<<blocks, kThreads, 0, stream>>>(pieces, count, src, dst);
    cuda::check(cudaGetLastError(), "copy kernel");
}

}  // namespace weightlift::transport
