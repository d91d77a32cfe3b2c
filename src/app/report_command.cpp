// weightlift report: results files as a page, or as a table for a text or a spreadsheet.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "weightlift/base/error.hpp"
#include "weightlift/report/report.hpp"

#include "commands.hpp"
#include "find_results.hpp"
#include "options.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

using Writer = std::string (*)(const std::vector<record::RunRecord>&);

/// All or nothing: a reader never meets half a page.
void write_file(const std::string& path, const std::string& text) {
    const std::string next = path + ".next";
    std::ofstream file(next, std::ios::binary);
    file << text;
    file.close();
    std::error_code error;
    if (file) std::filesystem::rename(next, path, error);
    if (!file || error) {
        std::error_code ignored;
        std::filesystem::remove(next, ignored);
        throw ResultsError(
            fmt::format("cannot write {}{}", path, error ? ": " + error.message() : std::string()));
    }
}

}  // namespace

int run_report(const Arguments& arguments) {
    std::vector<std::string> paths;
    std::string output, format = "html";
    bool allow_partial = false;
    CLI::App app("results files as one page, or as a table", "weightlift report");
    app.add_option("files", paths, "results files, folders of them, or quoted globs")->required();
    app.add_option("-o,--output", output,
                   "file to write, replaced if it is there (default: standard output)");
    app.add_option("--format", format, "html, markdown or csv")->capture_default_str();
    app.add_flag("--allow-partial", allow_partial, "read runs that were killed or still go on");
    if (parse_arguments(app, arguments) == Parsed::HelpShown) return 0;
    const Writer write = choose<Writer, 3>(format, "--format",
                                           {{{"html", report::html_report},
                                             {"markdown", report::markdown_report},
                                             {"csv", report::csv_report}}});
    // Results are never overwritten, not even by a slip of the keyboard.
    if (output.ends_with(".h5") || output.ends_with(".part"))
        throw ConfigError(fmt::format("--output {}: that is the name of a results file", output));
    if (output.empty() && write == Writer{report::html_report} && isatty(STDOUT_FILENO) != 0)
        throw ConfigError("--output FILE is missing: a page is nothing for a terminal");

    std::vector<record::RunRecord> runs;
    const Unfinished unfinished = allow_partial ? Unfinished::Take : Unfinished::LeaveOut;
    for (const std::string& given : paths)
        for (const std::string& path : find_results(given, unfinished))
            runs.push_back(record::read_results(path, allow_partial));
    const std::string text = write(runs);
    if (output.empty())
        std::fputs(text.c_str(), stdout);
    else
        write_file(output, text);
    return 0;
}

}  // namespace weightlift::app
