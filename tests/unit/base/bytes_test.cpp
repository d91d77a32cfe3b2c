#include "weightlift/base/bytes.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace weightlift {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

/// The message and exit code of what `function` throws.
template <class Function>
std::pair<std::string, ExitCode> thrown_by(Function&& function) {
    try {
        (void)function();
    } catch (const Error& error) {
        return {error.what(), error.code()};
    }
    return {"(nothing)", ExitCode::Ok};
}

TEST(Narrow, keeps_what_fits) {
    EXPECT_EQ(narrow<int>(std::uint64_t{2147483647}), 2147483647);
    EXPECT_EQ(narrow<std::uint32_t>(std::int64_t{4294967295}), 4294967295U);
    EXPECT_EQ(narrow<std::int8_t>(-128), -128);
    EXPECT_EQ(narrow<std::uint64_t>(0), 0U);
}

TEST(Narrow, refuses_what_does_not_and_names_it) {
    const auto [text, code] =
        thrown_by([] { return narrow<int>(std::uint64_t{2147483648}, "MPI count"); });
    EXPECT_EQ(text, "MPI count 2147483648 does not fit its type");
    EXPECT_EQ(code, ExitCode::Internal);
    EXPECT_THROW((void)narrow<std::uint32_t>(-1), Error);
    EXPECT_THROW((void)narrow<std::int64_t>(kMost), Error);
    EXPECT_THROW((void)narrow<std::uint8_t>(256), Error);
}

struct Pair {
    std::uint64_t a, b;
    bool fits;
};

TEST(CheckedMul, refuses_products_beyond_64_bits) {
    for (const Pair& p :
         {Pair{0, kMost, true}, Pair{1, kMost, true}, Pair{kMost, 1, true},
          Pair{1ULL << 32, (1ULL << 32) - 1, true}, Pair{1ULL << 32, 1ULL << 32, false},
          Pair{kMost, 2, false}, Pair{kMost / 3, 3, true}, Pair{kMost / 3 + 1, 3, false}}) {
        if (p.fits)
            EXPECT_EQ(checked_mul(p.a, p.b, "size"), p.a * p.b);
        else
            EXPECT_THROW((void)checked_mul(p.a, p.b, "size"), ConfigError) << p.a << ' ' << p.b;
    }
    EXPECT_EQ(thrown_by([] { return checked_mul(kMost, 2, "bytes of t"); }).first,
              "bytes of t: 18446744073709551615 x 2 does not fit in 64 bits");
}

TEST(CheckedAdd, refuses_sums_beyond_64_bits) {
    for (const Pair& p : {Pair{0, kMost, true}, Pair{kMost, 0, true}, Pair{kMost - 1, 1, true},
                          Pair{kMost, 1, false}, Pair{1ULL << 63, 1ULL << 63, false}}) {
        if (p.fits)
            EXPECT_EQ(checked_add(p.a, p.b, "sum"), p.a + p.b);
        else
            EXPECT_THROW((void)checked_add(p.a, p.b, "sum"), ConfigError) << p.a << ' ' << p.b;
    }
    EXPECT_EQ(thrown_by([] { return checked_add(kMost, 1, "bytes of a rank"); }).first,
              "bytes of a rank: 18446744073709551615 + 1 does not fit in 64 bits");
}

TEST(CeilDiv, is_the_least_number_of_parts_that_suffices) {
    for (std::uint64_t a = 0; a < 40; ++a)
        for (std::uint64_t b = 1; b < 12; ++b) {
            EXPECT_GE(ceil_div(a, b) * b, a);
            EXPECT_TRUE(ceil_div(a, b) == 0 || (ceil_div(a, b) - 1) * b < a);
        }
    // Where a + b - 1 would wrap.
    EXPECT_EQ(ceil_div(kMost, 2), kMost / 2 + 1);
}

TEST(RoundUp, is_the_next_multiple) {
    EXPECT_EQ(round_up(0, 256), 0U);
    EXPECT_EQ(round_up(1, 256), 256U);
    EXPECT_EQ(round_up(256, 256), 256U);
    EXPECT_EQ(round_up(257, 256), 512U);
}

struct Shown {
    Bytes bytes;
    const char* text;
};

TEST(HumanBytes, shows_three_digits_in_decimal_units) {
    for (const Shown& row : {
             Shown{0, "0 B"},
             {1, "1 B"},
             {999, "999 B"},
             {1'000, "1.00 kB"},
             {1'234, "1.23 kB"},
             {9'994, "9.99 kB"},
             {9'996, "10.0 kB"},
             {12'345, "12.3 kB"},
             {99'960, "100 kB"},
             {123'456, "123 kB"},
             {999'499, "999 kB"},
             {999'500, "1.00 MB"},
             {31'412'968'448, "31.4 GB"},
             {500'000'000, "500 MB"},
             {17'900'000'000'000, "17.9 TB"},
             {2'000'000'000'000'000, "2.00 PB"},
             {kMost, "18.4 EB"},
         })
        EXPECT_EQ(human_bytes(row.bytes), row.text) << row.bytes;
}

}  // namespace
}  // namespace weightlift
