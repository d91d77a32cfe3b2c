// The values of base/values.hpp, four bytes of a row at a time: what GPU kernels write and compare.
// The same bits in two thirds of the instructions: the row's share of the second mixing step is
// taken out of the loop, and elements narrower than a word are made finite side by side. Also for
// the CPU, so that a test without a GPU can hold it against the definition.
#pragma once

#include <cstdint>

#include "weightlift/base/values.hpp"

namespace weightlift::memory::cuda {

/// What the values of one row depend on, besides the column.
struct PackedRowKey {
    std::uint32_t low = 0;
    std::uint32_t fold = 0;  ///< high ^ (high >> 13)
};

[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr PackedRowKey pack_row_key(std::uint64_t row_key) {
    const auto high = static_cast<std::uint32_t>(row_key >> 32);
    return {static_cast<std::uint32_t>(row_key), high ^ (high >> 13)};
}

/// Columns enter the values by this product alone; the next column's is larger by the step.
inline constexpr std::uint32_t kColumnStep = 0x9e3779b1U;
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint32_t column_product(std::uint32_t column) {
    return column * kColumnStep;
}

/// value_bits32 but for its last step, x ^ (x >> 16).
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint32_t unfolded_bits(PackedRowKey key,
                                                                           std::uint32_t product) {
    std::uint32_t x = key.low + product;
    x = (x ^ (x >> 16)) * 0x85ebca6bU;
    return (x ^ (x >> 13) ^ key.fold) * 0xc2b2ae35U;
}

/// Byte i of the result is the byte of b:a that digit i of the selector names.
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE inline std::uint32_t select_bytes(std::uint32_t a,
                                                                       std::uint32_t b,
                                                                       std::uint32_t selector) {
#if defined(__CUDA_ARCH__)
    return __byte_perm(a, b, selector);
#else
    const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
    std::uint32_t result = 0;
    for (unsigned i = 0; i < 4; ++i)
        result |= static_cast<std::uint32_t>(both >> (8 * (selector >> (4 * i) & 7U)) & 0xffU)
                  << (8 * i);
    return result;
#endif
}

/// finite_bf16 and its like on all elements of a word. `exponents` has their exponent bits, `ones`
/// the lowest of these: the sum carries into the sign where all are set.
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint32_t make_finite(std::uint32_t word,
                                                                         std::uint32_t exponents,
                                                                         std::uint32_t ones,
                                                                         std::uint32_t flips) {
    return word ^ ((((word & exponents) + ones) >> 1) & flips);
}

/// The elements of four bytes whose first column has this product, the first in the lowest bits.
template <DType D>
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE inline std::uint32_t packed_word(PackedRowKey key,
                                                                      std::uint32_t product) {
    const std::uint32_t x0 = unfolded_bits(key, product);
    if constexpr (D == DType::F32) {
        return make_finite(x0 ^ (x0 >> 16), 0x7f800000U, 0x00800000U, 0x40000000U);
    } else if constexpr (element_bytes(D) == 2) {
        const std::uint32_t x1 = unfolded_bits(key, product + kColumnStep);
        const std::uint32_t word = select_bytes(x0, x1, 0x5410U) ^ select_bytes(x0, x1, 0x7632U);
        return D == DType::BF16 ? make_finite(word, 0x7f807f80U, 0x00800080U, 0x40004000U)
                                : make_finite(word, 0x7c007c00U, 0x04000400U, 0x40004000U);
    } else {
        const std::uint32_t x1 = unfolded_bits(key, product + kColumnStep);
        const std::uint32_t x2 = unfolded_bits(key, product + 2 * kColumnStep);
        const std::uint32_t x3 = unfolded_bits(key, product + 3 * kColumnStep);
        const std::uint32_t a = select_bytes(x0, x1, 0x6240U);
        const std::uint32_t b = select_bytes(x2, x3, 0x6240U);
        return make_finite(select_bytes(a, b, 0x5410U) ^ select_bytes(a, b, 0x7632U), 0x7f7f7f7fU,
                           0x01010101U, 0x40404040U);
    }
}

}  // namespace weightlift::memory::cuda
