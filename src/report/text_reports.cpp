#include <tuple>

#include <fmt/format.h>

#include "weightlift/record/figures.hpp"
#include "weightlift/report/report.hpp"

#include "columns.hpp"

namespace weightlift::report {

namespace {

/// Inside a cell of a Markdown table.
std::string markdown(std::string_view text) {
    std::string out;
    for (const char c : text) switch (c) {
            case '|': out += "\\|"; break;
            case '*': out += "\\*"; break;
            case '_': out += "\\_"; break;
            case '`': out += "\\`"; break;
            case '<': out += "&lt;"; break;
            case '&': out += "&amp;"; break;
            case '\n': out += ' '; break;
            default: out += c;
        }
    return out;
}

std::string csv(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
}

}  // namespace

std::string markdown_report(const std::vector<record::RunRecord>& runs) {
    const Study study(runs);
    std::string out =
        "| | file | status | created | ranks | weightlift |\n|---|---|---|---|--:|---|\n";
    for (std::size_t file = 0; file < runs.size(); ++file)
        out += fmt::format(
            "| {} | {} | {}{} | {} | {} | {} ({}) |\n", file_label(file), markdown(runs[file].path),
            markdown(runs[file].status),
            runs[file].exit_code > 0 ? fmt::format(", exit code {}", runs[file].exit_code) : "",
            markdown(runs[file].run.created_utc), runs[file].run.ranks.size(),
            markdown(runs[file].run.tool_version), markdown(runs[file].run.git));
    out += "\n| case | |";
    std::string rule = "|---|---|";
    for (const ResultColumn& column : result_columns()) {
        out +=
            fmt::format(" {}{}{} |", markdown(column.name), *column.unit ? ", " : "", column.unit);
        rule += "--:|";
    }
    out += " slowest |\n" + rule + "---|\n";
    for (const Group& group : study.groups)
        for (const Entry& entry : group.entries) {
            const bool is_marked = record::worst_clock(entry.one->samples) > record::kClockLimit;
            out += fmt::format("| {}{} | {} |", markdown(group.name), is_marked ? " \\*" : "",
                               file_label(entry.file));
            for (const ResultColumn& column : result_columns())
                out += fmt::format(" {} |", column.cell(entry).shown);
            out += fmt::format(" {} |\n", markdown(slowest_text(entry)));
        }
    return out;
}

std::string csv_report(const std::vector<record::RunRecord>& runs) {
    const Study study(runs);
    std::string out =
        "file,run_uuid,status,exit_code,created_utc,case,key,verify,plan_digest,copies";
    for (const ResultColumn& column : result_columns()) out += fmt::format(",{}", column.field);
    out += ",slowest_rank,slowest_ratio,slowest_iterations\n";
    for (const Group& group : study.groups)
        for (const Entry& entry : group.entries) {
            const auto& [run, info, s] = std::tie(*entry.run, entry.one->info, entry.summary);
            out += fmt::format("{},{},{},{},{},{},{},{},{:016x},{}", csv(run.path),
                               csv(run.run.run_uuid), csv(run.status),
                               run.exit_code < 0 ? "" : std::to_string(run.exit_code),
                               csv(run.run.created_utc), entry.number, csv(info.key),
                               csv(info.verify), info.plan_digest, info.copies);
            for (const ResultColumn& column : result_columns())
                out += fmt::format(",{}", column.cell(entry).exact);
            out += s.slowest_rank < 0 ? ",,,\n"
                                      : fmt::format(",{},{},{}\n", s.slowest_rank, s.slowest_ratio,
                                                    s.slowest_count);
        }
    return out;
}

}  // namespace weightlift::report
