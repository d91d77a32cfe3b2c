#include "row_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#define WEIGHTLIFT_AVX2 __attribute__((target("avx2")))
#endif

#include "weightlift/base/error.hpp"
#include "weightlift/base/values.hpp"

#define WEIGHTLIFT_INLINE __attribute__((always_inline)) inline

namespace weightlift::memory {
namespace {

template <DType D>
using Element =
    std::conditional_t<element_bytes(D) == 4, std::uint32_t,
                       std::conditional_t<element_bytes(D) == 2, std::uint16_t, std::uint8_t>>;

// Weights need not be aligned to their element, so all access is by memcpy.
template <class T>
WEIGHTLIFT_INLINE T load(const std::byte* row, std::size_t index) {
    T value;
    std::memcpy(&value, row + index * sizeof(T), sizeof(T));
    return value;
}

/// Readers of rows ask for what comes 2 KiB later: twice the speed from memory, where the hardware
/// stops at each page. Past the end it is harmless.
WEIGHTLIFT_INLINE void prefetch(const std::byte* at) { __builtin_prefetch(at + 2048); }

template <DType D>
WEIGHTLIFT_INLINE void fill_row(std::byte* row, std::uint64_t row_key, std::uint32_t column,
                                std::size_t n) {
    using T = Element<D>;
    // A counter of its own: narrowing i costs eight shuffles a vector.
    for (std::size_t i = 0; i < n; ++i, ++column) {
        const T value = static_cast<T>(value_bits(D, row_key, column));
        std::memcpy(row + i * sizeof(T), &value, sizeof(T));
    }
}

template <DType D>
WEIGHTLIFT_INLINE bool row_differs(const std::byte* row, std::uint64_t row_key,
                                   std::uint32_t column, std::size_t n) {
    // 32-bit lanes throughout: the values are not narrowed as in fill.
    std::uint32_t difference = 0;
    constexpr std::size_t kBlock = 512;
    for (std::size_t begin = 0; begin < n; begin += kBlock) {
        const std::size_t end = std::min(begin + kBlock, n);
        for (std::size_t i = begin; i < end; i += 64 / sizeof(Element<D>))
            prefetch(row + i * sizeof(Element<D>));
        for (std::size_t i = begin; i < end; ++i, ++column)
            difference |= value_bits(D, row_key, column) ^ load<Element<D>>(row, i);
    }
    return difference != 0;
}

template <DType D>
WEIGHTLIFT_INLINE std::uint64_t dot_row(const std::byte* row, const std::uint64_t* keys,
                                        std::size_t n) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += load<Element<D>>(row, i) * keys[i];
    return sum;
}

template <DType D>
constexpr RowKernels kBaseline = {[](std::byte* row, std::uint64_t key, std::uint32_t column,
                                     std::size_t n) { fill_row<D>(row, key, column, n); },
                                  [](const std::byte* row, std::uint64_t key, std::uint32_t column,
                                     std::size_t n) { return row_differs<D>(row, key, column, n); },
                                  [](const std::byte* row, const std::uint64_t* keys,
                                     std::size_t n) { return dot_row<D>(row, keys, n); }};

#if defined(__x86_64__)
template <DType D>
WEIGHTLIFT_AVX2 void fill_avx2(std::byte* row, std::uint64_t key, std::uint32_t column,
                               std::size_t n) {
    fill_row<D>(row, key, column, n);
}

template <DType D>
WEIGHTLIFT_AVX2 bool differs_avx2(const std::byte* row, std::uint64_t key, std::uint32_t column,
                                  std::size_t n) {
    return row_differs<D>(row, key, column, n);
}

/// Four elements, each zero-extended to 64 bits.
template <DType D>
WEIGHTLIFT_AVX2 WEIGHTLIFT_INLINE __m256i load4(const std::byte* row, std::size_t index) {
    const std::byte* at = row + index * element_bytes(D);
    if constexpr (element_bytes(D) == 4)
        return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    else if constexpr (element_bytes(D) == 2)
        return _mm256_cvtepu16_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    else
        return _mm256_cvtepu8_epi64(_mm_loadu_si32(at));
}

// bits * key mod 2^64 = bits * low(key) + (bits * high(key) << 32): two 32 x 32 -> 64 multiplies,
// as AVX2 has no 64-bit one. The shift is taken out of the sum.
template <DType D>
WEIGHTLIFT_AVX2 std::uint64_t dot_avx2(const std::byte* row, const std::uint64_t* keys,
                                       std::size_t n) {
    __m256i low[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        prefetch(row + i * element_bytes(D));
        for (std::size_t k = 0; k < 2; ++k) {  // two chains of additions
            const __m256i bits = load4<D>(row, i + 4 * k);
            const __m256i key =
                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + i + 4 * k));
            low[k] = _mm256_add_epi64(low[k], _mm256_mul_epu32(bits, key));
            high[k] = _mm256_add_epi64(high[k], _mm256_mul_epu32(bits, _mm256_srli_epi64(key, 32)));
        }
    }
    const __m256i sums =
        _mm256_add_epi64(_mm256_add_epi64(low[0], low[1]),
                         _mm256_slli_epi64(_mm256_add_epi64(high[0], high[1]), 32));
    std::array<std::uint64_t, 4> lanes{};
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes.data()), sums);
    return lanes[0] + lanes[1] + lanes[2] + lanes[3] +
           dot_row<D>(row + i * element_bytes(D), keys + i, n - i);
}

template <DType D>
constexpr RowKernels kAvx2 = {fill_avx2<D>, differs_avx2<D>, dot_avx2<D>};
#endif

template <DType D>
const RowKernels& kernels_of([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
    if (isa == Isa::Avx2) return kAvx2<D>;
#endif
    return kBaseline<D>;
}

}  // namespace

Isa best_isa() {
#if defined(__x86_64__)
    static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
    if (avx2) return Isa::Avx2;
#endif
    return Isa::Baseline;
}

const RowKernels& row_kernels(DType dtype, Isa isa) {
    switch (dtype) {
        case DType::BF16: return kernels_of<DType::BF16>(isa);
        case DType::F16: return kernels_of<DType::F16>(isa);
        case DType::F32: return kernels_of<DType::F32>(isa);
        case DType::F8E4M3: break;
    }
    return kernels_of<DType::F8E4M3>(isa);
}

std::uint32_t element_bits(DType dtype, const std::byte* row, std::size_t index) {
    switch (element_bytes(dtype)) {
        case 4: return load<std::uint32_t>(row, index);
        case 2: return load<std::uint16_t>(row, index);
        default: return load<std::uint8_t>(row, index);
    }
}

}  // namespace weightlift::memory
