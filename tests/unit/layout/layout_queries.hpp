// Short questions that tests of rules ask a layout.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "weightlift/layout/layout.hpp"

namespace weightlift::layout {

/// The rank's parameter of this name, or nullptr.
inline const Parameter* find(const Layout& layout, Rank rank, std::string_view name) {
    for (const Parameter& parameter : layout.parameters())
        if (parameter.name == name && layout.holds(parameter.ranks, rank)) return &parameter;
    return nullptr;
}

inline std::vector<std::uint64_t> shape(const Layout& layout, Rank rank, std::string_view name) {
    const Parameter* parameter = find(layout, rank, name);
    if (parameter == nullptr) return {};
    const auto values = parameter->shape.values();
    return {values.begin(), values.end()};
}

inline std::vector<Rank> holders(const Layout& layout, Rank rank, std::string_view name) {
    const Parameter* parameter = find(layout, rank, name);
    if (parameter == nullptr) return {};
    const auto ranks = layout.rank_set(parameter->ranks);
    return {ranks.begin(), ranks.end()};
}

/// Rows of the logical tensor that a rank's parameter begins with.
inline Interval first_rows(const Layout& layout, Rank rank, std::string_view name) {
    const Parameter* parameter = find(layout, rank, name);
    return parameter == nullptr ? Interval{} : parameter->pieces.at(0).box.rows;
}

}  // namespace weightlift::layout
