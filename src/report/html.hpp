// Pieces of HTML. All text of a file goes through escape() or datum().
#pragma once

#include <string>
#include <string_view>

#include "columns.hpp"

namespace weightlift::report {

/// Safe between tags and inside quoted attributes.
[[nodiscard]] std::string escape(std::string_view text);
/// The shown value, with the exact one for programs: <data value="446123">0.446</data>.
[[nodiscard]] std::string datum(const Cell& cell);
/// A table row of plain, escaped cells; `tag` is td or th.
[[nodiscard]] std::string row(std::initializer_list<std::string_view> cells,
                              std::string_view tag = "td");
/// Letter of a file in its colour.
[[nodiscard]] std::string file_badge(std::size_t file);
/// The same, with the number of a repetition within the file.
[[nodiscard]] std::string entry_badge(const Entry& entry);
/// One of the page's colours, as a CSS value; they repeat.
[[nodiscard]] std::string file_colour(std::size_t file);

}  // namespace weightlift::report
