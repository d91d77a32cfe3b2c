// How far a mistyped name is from a known one, for messages that suggest the nearest.
#pragma once

#include <cstddef>
#include <string_view>

namespace weightlift {

/// Levenshtein distance in bytes: insertions, deletions and substitutions that turn `a` into `b`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace weightlift
