#include "weightlift/base/bytes.hpp"

#include <array>

#include <fmt/format.h>

namespace weightlift {

std::string human_bytes(Bytes bytes) {
    constexpr std::array<const char*, 7> units{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    // 999.5 and more would round to a four-digit "1000".
    while (value >= 999.5 && unit + 1 < units.size()) {
        value /= 1000;
        ++unit;
    }
    if (unit == 0) return fmt::format("{} B", bytes);
    // Bounds as above: what rounds up to one digit more before the point has one less after it.
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

}  // namespace weightlift
