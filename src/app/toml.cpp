#include "toml.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "weightlift/base/error.hpp"

namespace weightlift::app {

std::string plain_toml(std::string_view toml) {
    std::string text, line;
    std::set<std::string> keys;  // of the section
    std::size_t number = 1;
    char quote = 0;
    int depth = 0;
    const auto refuse = [&](const std::string& what) {
        throw ConfigError(fmt::format("line {}: {}", number, what));
    };
    const auto finish_line = [&] {
        if (quote != 0) refuse("a text does not end");
        if (depth > 0 || line.empty()) return;
        if (line.front() == '[') {
            keys.clear();
        } else {
            const auto equals = line.find('=');
            if (equals == std::string::npos || equals == 0 || equals + 1 == line.size())
                refuse(fmt::format("{} is not KEY = VALUE", line));
            if (!keys.insert(line.substr(0, equals)).second)
                refuse(fmt::format("{} is there twice", line.substr(0, equals)));
        }
        text += line + '\n';
        line.clear();
        depth = 0;
    };
    for (std::size_t i = 0; i < toml.size(); ++i) {
        const char c = toml[i];
        if (c == '\n') {
            finish_line();
            ++number;
        } else if (quote != 0) {
            if (c == '#') refuse("a '#' inside of a text");
            if (c == quote) quote = 0;
            line += c;
        } else if (c == '#') {
            i = std::min(toml.find('\n', i), toml.size()) - 1;
        } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
            if (c == '"' || c == '\'') quote = c;
            if (c == '[') ++depth;
            if (c == ']') --depth;
            line += c;
        }
    }
    finish_line();
    if (depth > 0) refuse("a list does not end");
    return text;
}

std::vector<CLI::ConfigItem> read_toml(std::string_view toml) {
    std::istringstream plain(plain_toml(toml));
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML().from_config(plain);
    // Nothing follows the last comma of a list.
    for (CLI::ConfigItem& item : items)
        if (item.inputs.size() > 1 && item.inputs.back().empty()) item.inputs.pop_back();
    return items;
}

std::vector<CLI::ConfigItem> TomlFormat::from_config(std::istream& input) const {
    return read_toml(std::string(std::istreambuf_iterator<char>(input), {}));
}

}  // namespace weightlift::app
