// Values as people type and read them: sizes, durations, numbers in tables, nearest names.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightlift/base/bytes.hpp"
#include "weightlift/record/figures.hpp"

namespace weightlift::app {

/// "64MiB", "8 GB", "4096": ConfigError naming `flag` for anything else, or more than 64 bits.
[[nodiscard]] Bytes parse_bytes(std::string_view text, const char* flag);
/// "60", "60s", "500ms", "2min", "1h"; a bare number is seconds.
[[nodiscard]] std::chrono::nanoseconds parse_duration(std::string_view text, const char* flag);
/// "85%", "85", "5.5 %" as a share: 0.85. ConfigError where it is not between 0 and 1000 %.
[[nodiscard]] double parse_percent(std::string_view text, const char* flag);
/// A whole number in [low, high]; ConfigError naming flag, value and range.
[[nodiscard]] std::uint64_t parse_number(std::string_view text, std::uint64_t low,
                                         std::uint64_t high, const char* flag);

/// ", did you mean 'x'?" for the nearest of `names` if one is near, else "".
[[nodiscard]] std::string suggestion(std::string_view wanted,
                                     std::span<const std::string_view> names);

/// ConfigError: "<flag> <text>: not one of …".
[[noreturn]] void throw_not_one_of(const std::string& text, const char* flag,
                                   std::span<const std::string_view> names);
/// The value of the name that equals `text`; ConfigError listing the names, and the nearest, else.
template <class T, std::size_t N>
[[nodiscard]] T choose(const std::string& text, const char* flag,
                       const std::array<std::pair<std::string_view, T>, N>& values) {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : values) {
        if (name == text) return value;
        names.push_back(name);
    }
    throw_not_one_of(text, flag, names);
}
using record::show_ms;
using record::show_rate;

/// Rows of cells as aligned columns: the first column to the left, the others to the right. A row
/// with one cell is printed as it is.
[[nodiscard]] std::string align(const std::vector<std::vector<std::string>>& rows);

/// UTC now, "2026-11-29T12:34:56Z".
[[nodiscard]] std::string utc_now();

}  // namespace weightlift::app
