#include "cuda/packed_values.hpp"

#include <random>

#include <gtest/gtest.h>

namespace weightlift::memory::cuda {
namespace {

template <DType D>
void expect_defined_values() {
    constexpr std::uint32_t kBits = 8 * static_cast<std::uint32_t>(element_bytes(D));
    std::mt19937_64 random(4);
    for (int i = 0; i < 200'000; ++i) {
        const std::uint64_t row_key = random();
        // The last columns of all wrap around.
        const std::uint32_t column =
            i < 64 ? ~0U - static_cast<std::uint32_t>(i) : static_cast<std::uint32_t>(random());
        std::uint32_t expected = 0;
        for (std::uint32_t e = 0; e < 32 / kBits; ++e)
            expected |= value_bits(D, row_key, column + e) << (kBits * e % 32);
        ASSERT_EQ(packed_word<D>(pack_row_key(row_key), column_product(column)), expected)
            << "row key " << row_key << ", column " << column;
    }
}

TEST(PackedValues, are_those_of_the_definition) {
    expect_defined_values<DType::BF16>();
    expect_defined_values<DType::F16>();
    expect_defined_values<DType::F32>();
    expect_defined_values<DType::F8E4M3>();
}

/// Random values seldom have all exponent bits set beside neighbours that do not, or do.
TEST(PackedValues, are_made_finite_side_by_side) {
    for (std::uint32_t low = 0; low < 0x10000U; ++low) {
        for (const std::uint32_t high : {0U, 0x7f80U, 0xffffU, 0x7c00U, 0x8000U}) {
            ASSERT_EQ(make_finite(high << 16 | low, 0x7f807f80U, 0x00800080U, 0x40004000U),
                      finite_bf16(high) << 16 | finite_bf16(low));
            ASSERT_EQ(make_finite(low << 16 | high, 0x7c007c00U, 0x04000400U, 0x40004000U),
                      finite_f16(low) << 16 | finite_f16(high));
        }
        const std::uint32_t word = low << 16 | (low ^ 0x7f80U);
        std::uint32_t bytes = 0;
        for (unsigned shift = 0; shift < 32; shift += 8)
            bytes |= finite_f8(word >> shift & 0xffU) << shift;
        ASSERT_EQ(make_finite(word, 0x7f7f7f7fU, 0x01010101U, 0x40404040U), bytes);
        ASSERT_EQ(make_finite(word, 0x7f800000U, 0x00800000U, 0x40000000U), finite_f32(word));
    }
}

}  // namespace
}  // namespace weightlift::memory::cuda
