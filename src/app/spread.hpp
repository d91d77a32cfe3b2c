// A number of every rank in three.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace weightlift::app {

struct Spread {
    std::uint64_t low = ~std::uint64_t{0}, high = 0, sum = 0, count = 0;
    void add(std::uint64_t value) {
        low = std::min(low, value);
        high = std::max(high, value);
        sum += value;
        ++count;
    }
    [[nodiscard]] double mean() const {
        return count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
    }
};

/// "min / mean / max".
template <class Show>
std::string show(const Spread& s, Show&& text) {
    if (s.count == 0) return "-";
    return fmt::format("{} / {} / {}", text(s.low), text(static_cast<std::uint64_t>(s.mean())),
                       text(s.high));
}

}  // namespace weightlift::app
