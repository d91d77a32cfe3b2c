// The small files of /proc and /sys. What is not there reads as empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weightlift::app::doctor {

[[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view text);
/// First number of a file.
[[nodiscard]] std::optional<std::uint64_t> number_in(const std::string& path);
/// First line of a file, without spaces at its end.
[[nodiscard]] std::string line_in(const std::string& path);
[[nodiscard]] std::string text_in(const std::string& path);
/// Names in a folder, by the alphabet.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

}  // namespace weightlift::app::doctor
