// The inner loops: one row of one dtype. Chosen once per block, by dtype and instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightlift/memory/host_kernels.hpp"

namespace weightlift::memory {

struct RowKernels {
    /// Writes the values of n columns from `column` on.
    void (*fill)(std::byte* row, std::uint64_t row_key, std::uint32_t column, std::size_t n);
    /// Whether any of them differs from what is there.
    bool (*differs)(const std::byte* row, std::uint64_t row_key, std::uint32_t column,
                    std::size_t n);
    /// Sum over i < n of bits(i) * keys[i], mod 2^64.
    std::uint64_t (*dot)(const std::byte* row, const std::uint64_t* keys, std::size_t n);
};

[[nodiscard]] const RowKernels& row_kernels(DType dtype, Isa isa);

/// Bit pattern of element `index` of a row.
[[nodiscard]] std::uint32_t element_bits(DType dtype, const std::byte* row, std::size_t index);

}  // namespace weightlift::memory
