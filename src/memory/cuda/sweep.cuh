// How a warp goes over an item of a WorkList, for any operation.
//
// An operation has: kReads, kWrites, kIsOfBytes (the type of elements does not matter), kResident
// (thread blocks to fit a multiprocessor by their registers); RowKey and row_key(block, row), made
// once per row and warp; and Lane<D>, what one lane keeps for its 16 bytes of columns: Lane(op,
// block, column, width), row(op, words, key, number of the lane's first element in that row),
// finish(op, block number).
#pragma once

#include <cuda_runtime.h>

#include "kernels.hpp"

namespace weightlift::memory::cuda {

constexpr int kThreads = 256;
constexpr std::uint32_t kKeys = 64;   // rows whose keys a warp has at hand
constexpr std::uint32_t kUnroll = 4;  // rows whose loads a lane has under way
constexpr unsigned kAllLanes = 0xffffffffU;

struct Words {
    std::uint32_t at[4];
};

template <bool Whole>
__device__ inline Words load_words(const std::byte* from, std::uint32_t width) {
    Words words{};
    if constexpr (Whole) {
        const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
        words = {{v.x, v.y, v.z, v.w}};
    } else {
#pragma unroll
        for (std::uint32_t i = 0; i < kLaneBytes; ++i)
            if (i < width) words.at[i / 4] |= static_cast<std::uint32_t>(from[i]) << (8 * (i % 4));
    }
    return words;
}

template <bool Whole>
__device__ inline void store_words(std::byte* to, const Words& words, std::uint32_t width) {
    if constexpr (Whole) {
        *reinterpret_cast<uint4*>(to) =
            make_uint4(words.at[0], words.at[1], words.at[2], words.at[3]);
    } else {
#pragma unroll
        for (std::uint32_t i = 0; i < kLaneBytes; ++i)
            if (i < width) to[i] = static_cast<std::byte>(words.at[i / 4] >> (8 * (i % 4)));
    }
}

/// Element i of the words.
template <DType D>
__device__ inline std::uint32_t element(const Words& words, std::uint32_t i) {
    constexpr std::uint32_t kBits = 8 * static_cast<std::uint32_t>(element_bytes(D));
    constexpr std::uint32_t kPerWord = 32 / kBits;
    const std::uint32_t word = words.at[i / kPerWord] >> (kBits * (i % kPerWord));
    return kBits == 32 ? word : word & ((1U << (kBits % 32)) - 1U);
}

template <DType D>
constexpr std::uint32_t kElements = kLaneBytes / static_cast<std::uint32_t>(element_bytes(D));

template <class Operation, DType D, bool Whole>
__device__ void sweep_item(const Operation& op, const Work& work, std::uint64_t number,
                           std::uint64_t item, typename Operation::RowKey* keys) {
    const WorkBlock& block = work.blocks[number];
    const std::uint32_t lane = threadIdx.x % kWarp;
    const LanePart part = lane_part(block, item, lane);
    const std::uint32_t side_by_side = part.side_by_side, width = part.width;
    const std::uint64_t column = part.skip / element_bytes(D);
    const std::uint64_t columns = block.row_bytes / element_bytes(D);
    const Bytes step = side_by_side * block.pitch;

    typename Operation::template Lane<D> state(op, block, block.first_column + column, width);
    for (std::uint64_t chunk = 0; chunk < part.rows; chunk += kKeys) {
        const auto n =
            static_cast<std::uint32_t>(part.rows - chunk < kKeys ? part.rows - chunk : kKeys);
        for (std::uint32_t i = lane; i < n; i += kWarp)
            keys[i] = op.row_key(block, block.first_row + part.begin + chunk + i);
        __syncwarp();
        if (width > 0) {
            std::uint64_t row = part.begin + chunk + part.own_row;
            std::byte* at = work.base + block.offset + row * block.pitch + part.skip;
            for (std::uint32_t r = part.own_row; r < n; r += kUnroll * side_by_side) {
                Words words[kUnroll];
                if constexpr (Operation::kReads) {
#pragma unroll
                    for (std::uint32_t u = 0; u < kUnroll; ++u)
                        if (r + u * side_by_side < n)
                            words[u] = load_words<Whole>(at + u * step, width);
                }
#pragma unroll
                for (std::uint32_t u = 0; u < kUnroll; ++u) {
                    const std::uint32_t index = r + u * side_by_side;
                    if (index >= n) continue;
                    state.row(
                        op, words[u], keys[index],
                        block.first_element + (part.begin + chunk + index) * columns + column);
                    if constexpr (Operation::kWrites)
                        store_words<Whole>(at + u * step, words[u], width);
                }
                at += kUnroll * step;
            }
        }
        // The next rows' keys take the place of these.
        __syncwarp();
    }
    state.finish(op, number);
}

template <class Operation, DType D>
__device__ inline void sweep_block(const Operation& op, const Work& work, std::uint64_t number,
                                   std::uint64_t item, typename Operation::RowKey* keys) {
    if (work.blocks[number].is_whole)
        sweep_item<Operation, D, true>(op, work, number, item, keys);
    else
        sweep_item<Operation, D, false>(op, work, number, item, keys);
}

/// The last block whose items begin at or before this one.
__device__ inline std::uint64_t block_of(const Work& work, std::uint64_t item,
                                         std::uint64_t at_least) {
    std::uint64_t low = at_least, high = work.count;
    while (high - low > 1) {
        const std::uint64_t middle = low + (high - low) / 2;
        (work.first_item[middle] <= item ? low : high) = middle;
    }
    return low;
}

template <class Operation>
__global__ void __launch_bounds__(kThreads, Operation::kResident) sweep(Operation op, Work work) {
    __shared__ typename Operation::RowKey keys_of_warp[kThreads / kWarp][kKeys];
    typename Operation::RowKey* const keys = keys_of_warp[threadIdx.x / kWarp];
    const std::uint64_t warps = std::uint64_t{gridDim.x} * (kThreads / kWarp);
    std::uint64_t number = 0;
    for (std::uint64_t item = std::uint64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
         item < work.items; item += warps) {
        if (work.first_item[number + 1] <= item) number = block_of(work, item, number + 1);
        const std::uint64_t within = item - work.first_item[number];
        if constexpr (Operation::kIsOfBytes) {
            sweep_block<Operation, DType::F8E4M3>(op, work, number, within, keys);
        } else {
            switch (work.blocks[number].dtype) {
                case DType::BF16:
                    sweep_block<Operation, DType::BF16>(op, work, number, within, keys);
                    break;
                case DType::F16:
                    sweep_block<Operation, DType::F16>(op, work, number, within, keys);
                    break;
                case DType::F32:
                    sweep_block<Operation, DType::F32>(op, work, number, within, keys);
                    break;
                case DType::F8E4M3:
                    sweep_block<Operation, DType::F8E4M3>(op, work, number, within, keys);
                    break;
            }
        }
    }
}

}  // namespace weightlift::memory::cuda
