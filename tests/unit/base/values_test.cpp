#include "weightlift/base/values.hpp"

#include <bit>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace weightlift {
namespace {

constexpr DType kTypes[] = {DType::BF16, DType::F16, DType::F32, DType::F8E4M3};

/// By the definition of each format: exponent all ones is infinity or NaN; FP8 E4M3 has no
/// infinity, and one NaN of either sign.
bool is_finite(DType dtype, std::uint32_t bits) {
    switch (dtype) {
        case DType::F32: return std::isfinite(std::bit_cast<float>(bits));
        case DType::BF16: return std::isfinite(std::bit_cast<float>(bits << 16));
        case DType::F16: return ((bits >> 10) & 0x1fU) != 0x1fU;
        case DType::F8E4M3: return (bits & 0x7fU) != 0x7fU;
    }
    return false;
}

std::uint32_t poison(DType dtype) {
    return static_cast<std::uint32_t>((std::uint64_t{1} << (8 * element_bytes(dtype))) - 1);
}

TEST(Values, are_finite_and_never_the_poison_pattern) {
    for (const DType dtype : kTypes) {
        for (std::uint64_t row = 0; row < 400; ++row) {
            const std::uint64_t key = value_row_key(hash_name("a.weight"), row, row % 3);
            for (std::uint32_t column = 0; column < 2500; ++column) {
                const std::uint32_t bits = value_bits(dtype, key, column);
                ASSERT_TRUE(is_finite(dtype, bits))
                    << to_string(dtype) << " row " << row << " column " << column;
                ASSERT_NE(bits, poison(dtype));
                ASSERT_LE(bits, poison(dtype)) << "wider than the element";
            }
        }
    }
}

TEST(Values, of_every_pattern_of_the_narrow_types_are_finite) {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        ASSERT_TRUE(is_finite(DType::BF16, finite_bf16(bits))) << bits;
        ASSERT_TRUE(is_finite(DType::F16, finite_f16(bits))) << bits;
        ASSERT_TRUE(is_finite(DType::F8E4M3, finite_f8(bits))) << bits;
        // What is finite already stays as it is.
        ASSERT_TRUE(finite_bf16(bits) == bits || !is_finite(DType::BF16, bits)) << bits;
        ASSERT_TRUE(finite_f16(bits) == bits || !is_finite(DType::F16, bits)) << bits;
        ASSERT_TRUE(finite_f8(bits) == (bits & 0xff) || !is_finite(DType::F8E4M3, bits & 0xff))
            << bits;
    }
    for (const std::uint32_t bits :
         {0x7f800000U, 0xff800000U, 0x7fc00000U, 0xffffffffU, 0x7f7fffffU})
        EXPECT_TRUE(is_finite(DType::F32, finite_f32(bits))) << bits;
}

TEST(Values, depend_on_tensor_row_column_and_version) {
    const auto value = [](const char* tensor, std::uint64_t row, std::uint32_t column,
                          std::uint64_t version) {
        return value_bits(DType::F32, value_row_key(hash_name(tensor), row, version), column);
    };
    const std::uint32_t base = value("a", 1, 1, 1);
    EXPECT_EQ(base, value("a", 1, 1, 1));
    EXPECT_NE(base, value("b", 1, 1, 1));
    EXPECT_NE(base, value("a", 2, 1, 1));
    EXPECT_NE(base, value("a", 1, 2, 1));
    EXPECT_NE(base, value("a", 1, 1, 2));
    // Transposed positions are not alike.
    EXPECT_NE(value("a", 1, 2, 1), value("a", 2, 1, 1));
}

TEST(Values, of_the_next_version_differ_nearly_everywhere) {
    // Stale data must show: even with 8 bits, about 1 element in 256 may agree by chance.
    for (const DType dtype : kTypes) {
        int equal = 0;
        for (std::uint64_t row = 0; row < 64; ++row)
            for (std::uint32_t column = 0; column < 1024; ++column)
                equal += value_bits(dtype, value_row_key(9, row, 4), column) ==
                         value_bits(dtype, value_row_key(9, row, 5), column);
        EXPECT_LT(equal, 64 * 1024 / 128) << to_string(dtype);
    }
}

TEST(Values, are_spread_over_all_bits) {
    for (int bit = 0; bit < 32; ++bit) {
        int ones = 0;
        for (std::uint32_t column = 0; column < 20'000; ++column)
            ones += static_cast<int>(value_bits32(value_row_key(1, 2, 3), column) >> bit & 1U);
        EXPECT_NEAR(ones, 10'000, 500) << "bit " << bit;
    }
}

TEST(FingerprintKeys, are_odd_and_differ_between_rows_and_columns) {
    std::set<std::uint64_t> keys;
    for (const std::uint64_t tensor : {hash_name("a"), hash_name("b")})
        for (std::uint64_t i = 0; i < 2000; ++i)
            for (const std::uint64_t key :
                 {row_fingerprint_key(tensor, i), column_fingerprint_key(tensor, i)}) {
                EXPECT_EQ(key % 2, 1U);  // odd: a single changed element always changes the sum
                keys.insert(key);
            }
    EXPECT_EQ(keys.size(), 2U * 2000U * 2U);
}

}  // namespace
}  // namespace weightlift
