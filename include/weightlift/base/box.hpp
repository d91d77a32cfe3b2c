// Half-open intervals and 2-D boxes of them: the atoms of all planning. Units: elements of a
// logical tensor. A 1-D tensor of n elements is one row of n columns.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weightlift {

/// [begin, end). Empty when end <= begin; an empty interval intersects nothing.
struct Interval {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    [[nodiscard]] constexpr std::uint64_t size() const { return end > begin ? end - begin : 0; }
    [[nodiscard]] constexpr bool empty() const { return end <= begin; }
    [[nodiscard]] constexpr bool contains(const Interval& other) const {
        return other.empty() || (begin <= other.begin && other.end <= end);
    }
    friend constexpr bool operator==(const Interval&, const Interval&) = default;
    friend constexpr auto operator<=>(const Interval&, const Interval&) = default;
};

/// The common part: [max of begins, min of ends), possibly empty.
[[nodiscard]] constexpr Interval intersect(const Interval& a, const Interval& b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

struct Box {
    Interval rows;
    Interval columns;

    [[nodiscard]] constexpr std::uint64_t elements() const { return rows.size() * columns.size(); }
    [[nodiscard]] constexpr bool empty() const { return rows.empty() || columns.empty(); }
    [[nodiscard]] constexpr bool contains(const Box& other) const {
        return other.empty() || (rows.contains(other.rows) && columns.contains(other.columns));
    }
    friend constexpr bool operator==(const Box&, const Box&) = default;
    friend constexpr auto operator<=>(const Box&, const Box&) = default;
};

[[nodiscard]] constexpr Box intersect(const Box& a, const Box& b) {
    return {intersect(a.rows, b.rows), intersect(a.columns, b.columns)};
}

}  // namespace weightlift
