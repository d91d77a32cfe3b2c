// Synthetic weight values and fingerprint keys, as pure functions that CPU and GPU code share.
//
// A value depends on (tensor, global element, version) alone, so any rank can recompute any byte
// and data of version n-1 shows. Values are always finite numbers; the poison pattern (all bits
// one, a NaN) is therefore never a value, and an unwritten element is always seen.
//
// The fingerprint of a tensor is, mod 2^64, the sum over elements of (bits + 1) * R(row) *
// C(column) with odd keys R and C: position-keyed, additive, hence independent of the sharding.
#pragma once

#include <cstdint>

#include "weightlift/base/dtype.hpp"
#include "weightlift/base/hash.hpp"

#if defined(__CUDACC__)
#define WEIGHTLIFT_HOST_DEVICE __host__ __device__
#else
#define WEIGHTLIFT_HOST_DEVICE
#endif

namespace weightlift {

/// Columns of a tensor stay below this, so that a column index is a 32-bit number in the kernels.
inline constexpr std::uint64_t kMaxColumns = std::uint64_t{1} << 32;

/// Key of a row's values; `tensor` is hash_name(tensor name).
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint64_t value_row_key(std::uint64_t tensor,
                                                                           std::uint64_t row,
                                                                           std::uint64_t version) {
    return splitmix64(tensor ^ splitmix64(row ^ (version << 40)));
}

/// 32 well-mixed bits for a column of that row.
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint32_t value_bits32(std::uint64_t row_key,
                                                                          std::uint32_t column) {
    std::uint32_t x = static_cast<std::uint32_t>(row_key) + column * 0x9e3779b1U;
    x = (x ^ (x >> 16)) * 0x85ebca6bU;
    x ^= static_cast<std::uint32_t>(row_key >> 32);
    x = (x ^ (x >> 13)) * 0xc2b2ae35U;
    return x ^ (x >> 16);
}

/// Flips one exponent bit where all are set, so that the pattern is a finite number of that width.
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint32_t finite_bf16(std::uint32_t bits) {
    bits &= 0xffffU;
    return (bits & 0x7f80U) == 0x7f80U ? bits ^ 0x4000U : bits;
}
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint32_t finite_f16(std::uint32_t bits) {
    bits &= 0xffffU;
    return (bits & 0x7c00U) == 0x7c00U ? bits ^ 0x4000U : bits;
}
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint32_t finite_f32(std::uint32_t bits) {
    return (bits & 0x7f800000U) == 0x7f800000U ? bits ^ 0x40000000U : bits;
}
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint32_t finite_f8(std::uint32_t bits) {
    bits &= 0xffU;
    return (bits & 0x7fU) == 0x7fU ? bits ^ 0x40U : bits;
}

/// The element's bit pattern in its own width, zero-extended.
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint32_t value_bits(DType dtype,
                                                                        std::uint64_t row_key,
                                                                        std::uint32_t column) {
    const std::uint32_t bits = value_bits32(row_key, column);
    switch (dtype) {
        case DType::F32: return finite_f32(bits);
        case DType::BF16: return finite_bf16(bits);
        case DType::F16: return finite_f16(bits);
        case DType::F8E4M3: return finite_f8(bits);
    }
    return 0;
}

/// R(tensor, row): odd.
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint64_t row_fingerprint_key(
    std::uint64_t tensor, std::uint64_t row) {
    return splitmix64(tensor ^ splitmix64(row ^ 0x526f770000000000ULL)) | 1U;
}
/// C(tensor, column): odd.
[[nodiscard]] WEIGHTLIFT_HOST_DEVICE constexpr std::uint64_t column_fingerprint_key(
    std::uint64_t tensor, std::uint64_t column) {
    return splitmix64(tensor ^ splitmix64(column ^ 0x436f6c0000000000ULL)) | 1U;
}

}  // namespace weightlift
