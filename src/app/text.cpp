#include "text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/edit_distance.hpp"
#include "weightlift/base/error.hpp"

namespace weightlift::app {

namespace {

template <std::size_t N>
long double parse_with_unit(std::string_view text, const char* flag, const char* what,
                            const std::array<std::pair<std::string_view, double>, N>& units) {
    // 64 bits of precision (x86-64), so that every whole number of bytes is exact.
    long double value = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
    while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
    if (parsed.ec == std::errc{} && std::isfinite(value) && value >= 0)
        for (const auto& [name, factor] : units)
            if (name == unit) return std::round(value * factor);
    throw ConfigError(fmt::format("{} {}: not {}", flag, text, what));
}

}  // namespace

Bytes parse_bytes(std::string_view text, const char* flag) {
    static constexpr std::array<std::pair<std::string_view, double>, 10> units{{
        {"", 1},
        {"B", 1},
        {"kB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {"KiB", 0x1p10},
        {"MiB", 0x1p20},
        {"GiB", 0x1p30},
        {"TiB", 0x1p40},
    }};
    const long double bytes = parse_with_unit(text, flag, "a size like 64MiB, 8GB or 4096", units);
    if (bytes >= 0x1p64L)
        throw ConfigError(fmt::format("{} {}: does not fit in 64 bits", flag, text));
    return static_cast<Bytes>(bytes);
}

std::chrono::nanoseconds parse_duration(std::string_view text, const char* flag) {
    static constexpr std::array<std::pair<std::string_view, double>, 6> units{{
        {"", 1e9},
        {"s", 1e9},
        {"ms", 1e6},
        {"us", 1e3},
        {"min", 60e9},
        {"h", 3600e9},
    }};
    const long double ns =
        parse_with_unit(text, flag, "a duration like 60, 60s, 500ms or 2min", units);
    // A year: longer than any job, and far from overflowing a deadline.
    if (ns > 365.0 * 24 * 3600e9)
        throw ConfigError(fmt::format("{} {}: more than a year", flag, text));
    return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
}

double parse_percent(std::string_view text, const char* flag) {
    std::string_view number = text;
    if (number.ends_with('%')) number.remove_suffix(1);
    while (number.ends_with(' ')) number.remove_suffix(1);
    double value = 0;
    const char* end = number.data() + number.size();
    const auto parsed = std::from_chars(number.data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end || !(value >= 0 && value <= 1000))
        throw ConfigError(fmt::format("{} {}: not a percentage like 5% or 85%", flag, text));
    return value / 100;
}

std::uint64_t parse_number(std::string_view text, std::uint64_t low, std::uint64_t high,
                           const char* flag) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end || value < low || value > high)
        throw ConfigError(
            fmt::format("{} {}: not a whole number from {} to {}", flag, text, low, high));
    return value;
}

std::string suggestion(std::string_view wanted, std::span<const std::string_view> names) {
    std::string_view best;
    std::size_t distance = wanted.size() / 2 + 1;
    for (const std::string_view name : names)
        if (const std::size_t d = edit_distance(wanted, name); d < distance) {
            distance = d;
            best = name;
        }
    return best.empty() ? "" : fmt::format(", did you mean '{}'?", best);
}

void throw_not_one_of(const std::string& text, const char* flag,
                      std::span<const std::string_view> names) {
    throw ConfigError(fmt::format("{} {}: not one of {}{}", flag, text, fmt::join(names, ", "),
                                  suggestion(text, names)));
}

std::string align(const std::vector<std::vector<std::string>>& rows) {
    const auto width_of = [](const std::string& cell) {
        // Columns of a terminal: bytes that begin a UTF-8 character.
        return static_cast<std::size_t>(std::count_if(cell.begin(), cell.end(), [](char c) {
            return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
        }));
    };
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        if (row.size() < 2) continue;
        widths.resize(std::max(widths.size(), row.size()), 0);
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::string out;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::size_t fill = row.size() < 2 ? 0 : widths[i] - width_of(row[i]);
            if (i > 0) line += "  " + std::string(fill, ' ');
            line += row[i];
            if (i == 0 && row.size() > 1) line += std::string(fill, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + '\n';
    }
    return out;
}

std::string utc_now() {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace weightlift::app
