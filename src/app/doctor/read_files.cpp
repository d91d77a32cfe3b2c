#include "read_files.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace weightlift::app::doctor {

std::optional<std::uint64_t> number_of(std::string_view text) {
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    return parsed.ec == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> number_in(const std::string& path) { return number_of(line_in(path)); }

std::string line_in(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    line.erase(line.find_last_not_of(" \t\r\n") + 1);
    return line;
}

std::string text_in(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
         at.increment(error))
        names.push_back(at->path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace weightlift::app::doctor
