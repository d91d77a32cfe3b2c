// Byte counts and element indices are 64-bit everywhere; every narrowing goes through narrow<>.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "weightlift/base/error.hpp"

namespace weightlift {

using Bytes = std::uint64_t;
/// A rank of one side's layout, or (in a plan) a plan rank: trainers 0..T-1, then rollouts.
using Rank = std::int32_t;

inline constexpr Bytes KiB = Bytes{1} << 10;
inline constexpr Bytes MiB = Bytes{1} << 20;
inline constexpr Bytes GiB = Bytes{1} << 30;

/// Converts between integer types or fails loudly; `what` names the quantity in the message.
template <class To, class From>
requires std::is_integral_v<To> && std::is_integral_v<From>
[[nodiscard]] constexpr To narrow(From value, const char* what = "integer") {
    if (!std::in_range<To>(value))
        throw Error(ExitCode::Internal,
                    std::string(what) + " " + std::to_string(value) + " does not fit its type");
    return static_cast<To>(value);
}

/// a * b, or ConfigError naming `what` when the product needs more than 64 bits.
[[nodiscard]] inline std::uint64_t checked_mul(std::uint64_t a, std::uint64_t b, const char* what) {
    std::uint64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product))
        throw ConfigError(std::string(what) + ": " + std::to_string(a) + " x " + std::to_string(b) +
                          " does not fit in 64 bits");
    return product;
}

/// a + b, or ConfigError naming `what` when the sum needs more than 64 bits.
[[nodiscard]] inline std::uint64_t checked_add(std::uint64_t a, std::uint64_t b, const char* what) {
    std::uint64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum))
        throw ConfigError(std::string(what) + ": " + std::to_string(a) + " + " + std::to_string(b) +
                          " does not fit in 64 bits");
    return sum;
}

[[nodiscard]] constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
    return a / b + (a % b != 0 ? 1 : 0);
}
[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t a, std::uint64_t to) {
    return ceil_div(a, to) * to;
}

/// "31.4 GB", decimal units (GB = 10^9), three significant digits.
[[nodiscard]] std::string human_bytes(Bytes bytes);

}  // namespace weightlift
