#include <algorithm>

#include <fmt/format.h>

#include "weightlift/record/figures.hpp"

#include "html.hpp"
#include "sections.hpp"

namespace weightlift::report {

namespace {

bool has_marked(const Study& study) {
    for (const Group& group : study.groups)
        for (const Entry& entry : group.entries)
            if (record::worst_clock(entry.one->samples) > record::kClockLimit) return true;
    return false;
}

/// Time over that of the first file that has one.
std::string over_first(const Group& group, const Entry& entry) {
    const auto first = std::find_if(group.entries.begin(), group.entries.end(), [](const Entry& e) {
        return e.summary.p50_ns != record::kNotMeasured;
    });
    if (group.entries.size() == 1) return "";
    if (first == group.entries.end() || entry.summary.p50_ns == record::kNotMeasured) return "-";
    if (&*first == &entry) return "1";
    return fmt::format("{:.3f}", static_cast<double>(entry.summary.p50_ns) /
                                     static_cast<double>(first->summary.p50_ns));
}

/// Long keys break after their parts, not within a name.
std::string breakable(const std::string& name) {
    std::string out;
    for (const char c : escape(name)) {
        out += c;
        if (c == '/' || c == ',') out += "<wbr>";
    }
    return out;
}

std::string definitions() {
    std::string out = "<details><summary>What the columns mean</summary><dl>\n";
    for (const ResultColumn& column : result_columns())
        out +=
            fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape(column.name), escape(column.definition));
    return out +
           "<dt>slowest</dt><dd>the rank that was most often the last, its median time over that "
           "of "
           "the median rank, and in how many iterations</dd>\n<dt>time</dt><dd>latest moment at "
           "which a rollout rank can use the weights (all bytes "
           "placed, version committed) − earliest release of a rank by the starting "
           "barrier</dd>\n</dl></details>\n";
}

}  // namespace

std::string results_section(const Study& study) {
    const bool has_many_files = study.runs.size() > 1;
    const bool is_compared =
        std::any_of(study.groups.begin(), study.groups.end(),
                    [](const Group& group) { return group.entries.size() > 1; });
    const bool has_badges = has_many_files || is_compared;
    std::string out =
        "<section id=\"results\"><h2>Results</h2>\n<div class=\"scroll\"><table class=\"results\">"
        "<thead><tr><th></th><th class=\"left\">case</th>";
    if (has_badges) out += "<th></th>";
    for (const ResultColumn& column : result_columns())
        out += fmt::format("<th title=\"{}\">{}<small>{}</small></th>", escape(column.definition),
                           escape(column.name), escape(column.unit));
    if (is_compared)
        out += "<th title=\"p50 over that of the first file that has this case\">× first</th>";
    out += "<th class=\"left\">slowest</th></tr></thead>\n";
    std::size_t number = 0;
    for (const Group& group : study.groups) {
        ++number;
        out += "<tbody>\n";
        for (const Entry& entry : group.entries) {
            const bool is_first = &entry == &group.entries.front();
            const bool is_marked = record::worst_clock(entry.one->samples) > record::kClockLimit;
            out += fmt::format("<tr data-file=\"{}\" data-case=\"{}\"{}>", entry.file, entry.number,
                               is_right(entry) ? "" : " class=\"wrong\"");
            out += is_first
                       ? fmt::format(
                             "<td>{0}</td><td class=\"key\"><a href=\"#case{0}\">{1}</a>{2}</td>",
                             number, breakable(group.name), is_marked ? " *" : "")
                       : fmt::format("<td></td><td class=\"key\">{}</td>", is_marked ? "*" : "");
            if (has_badges) out += "<td class=\"left\">" + entry_badge(entry) + "</td>";
            for (const ResultColumn& column : result_columns())
                out += fmt::format("<td data-field=\"{}\">{}</td>", column.field,
                                   datum(column.cell(entry)));
            if (is_compared) out += "<td>" + over_first(group, entry) + "</td>";
            out += "<td class=\"words\">" + escape(slowest_text(entry)) + "</td></tr>\n";
        }
        out += "</tbody>\n";
    }
    out += "</table></div>\n";
    if (has_marked(study))
        out +=
            "<p class=\"note\">* clock error or release skew above 1 % of the time in some "
            "iteration.</p>\n";
    if (is_compared)
        out +=
            "<p class=\"note\">Ratios here are not tested for significance; "
            "<code>weightlift compare</code> does that.</p>\n";
    return out + definitions() + "</section>\n";
}

}  // namespace weightlift::report
