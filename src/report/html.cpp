#include "html.hpp"

#include <fmt/format.h>

namespace weightlift::report {

std::string escape(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (const char c : text) switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '"': out += "&quot;"; break;
            case '\'': out += "&#39;"; break;
            default: out += c;
        }
    return out;
}

std::string datum(const Cell& cell) {
    if (cell.exact.empty()) return escape(cell.shown);
    return fmt::format(R"(<data value="{}">{}</data>)", escape(cell.exact), escape(cell.shown));
}

std::string row(std::initializer_list<std::string_view> cells, std::string_view tag) {
    std::string out = "<tr>";
    for (const std::string_view cell : cells)
        out += fmt::format("<{0}>{1}</{0}>", tag, escape(cell));
    return out + "</tr>\n";
}

std::string file_colour(std::size_t file) { return fmt::format("var(--file{})", file % 6); }

std::string file_badge(std::size_t file) {
    return fmt::format(R"(<b class="file" style="background:{}">{}</b>)", file_colour(file),
                       file_label(file));
}

std::string entry_badge(const Entry& entry) {
    const std::uint64_t repetition = entry.one->info.repetition;
    return file_badge(entry.file) + (repetition > 0 ? fmt::format(" #{}", repetition) : "");
}

}  // namespace weightlift::report
