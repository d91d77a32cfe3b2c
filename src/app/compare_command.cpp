// weightlift compare: is NEW slower than BASE?
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <glob.h>

#include "weightlift/compare/compare.hpp"

#include "catalog.hpp"
#include "commands.hpp"
#include "comparison_text.hpp"
#include "options.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

namespace fs = std::filesystem;

struct Side {
    std::vector<compare::Launch> launches;
    std::string description;
};

void expand_folder(const std::string& folder, std::vector<std::string>& files) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        const std::string path = at->path().string();
        if (path.ends_with(".h5")) files.push_back(path);
        if (path.ends_with(".h5.part"))
            fmt::print(stderr, "weightlift: note: left out {}, whose run is not finished\n", path);
    }
    if (error)
        throw ResultsError(fmt::format("cannot read the folder {}: {}", folder, error.message()));
    if (files.empty()) throw ResultsError(fmt::format("folder {} holds no .h5 file", folder));
}

void expand_glob(const std::string& pattern, std::vector<std::string>& files) {
    glob_t found{};
    const int status = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
    for (std::size_t i = 0; status == 0 && i < found.gl_pathc; ++i)
        files.emplace_back(found.gl_pathv[i]);
    globfree(&found);
    if (status == GLOB_NOMATCH) throw ResultsError(fmt::format("no file matches {}", pattern));
    if (status != 0) throw ResultsError(fmt::format("cannot read a folder of {}", pattern));
}

std::string plural(std::size_t count, const char* one, const char* many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// A file, all .h5 files of a folder, or what a pattern matches.
Side load_side(const std::string& given) {
    std::vector<std::string> files;
    std::error_code ignored;
    if (fs::is_directory(given, ignored))
        expand_folder(given, files);
    else if (!fs::exists(given, ignored) && given.find_first_of("*?[") != std::string::npos)
        expand_glob(given, files);
    else
        files.push_back(given);
    std::sort(files.begin(), files.end());
    Side side;
    for (const std::string& file : files)
        for (compare::Launch& launch : compare::launches_of(record::read_results(file, false)))
            side.launches.push_back(std::move(launch));
    side.description =
        fmt::format("{} ({} in {})", given, plural(side.launches.size(), "launch", "launches"),
                    plural(files.size(), "file", "files"));
    return side;
}

enum class Format { Text, Markdown, Json };

}  // namespace

int run_compare(const Arguments& arguments) {
    std::string base_path, new_path, threshold = "5%", format = "text", references, history;
    bool allow_missing = false, is_strict = false;
    CLI::App app(
        "is NEW slower than BASE? Each is a results file, a folder of them, or a quoted glob; the "
        "unit is the launch, of which a verdict takes at least four a side",
        "weightlift compare");
    app.add_option("base", base_path, "the earlier launches")->required();
    app.add_option("new", new_path, "the launches in question")->required();
    app.add_option("--threshold", threshold, "smaller changes of the median time do not matter")
        ->capture_default_str();
    app.add_option("--history", history,
                   "one new launch against the last N of base, one a night: 20 decide one case");
    app.add_option("--reference", references,
                   "JSON file of bounds by case and metric that new must keep");
    app.add_flag("--allow-missing", allow_missing, "a case that new lacks is no failure");
    app.add_flag("--strict", is_strict, "an inconclusive case is a failure");
    app.add_option("--format", format, "text, markdown, json")->capture_default_str();
    if (parse_arguments(app, arguments) == Parsed::HelpShown) return 0;

    compare::Options options;
    options.threshold = parse_percent(threshold, "--threshold");
    if (!history.empty()) options.history = parse_number(history, 1, 100'000, "--history");
    if (!references.empty())
        options.references = compare::parse_references(read_text(references), references);
    const auto form = choose<Format, 3>(
        format, "--format",
        {{{"text", Format::Text}, {"markdown", Format::Markdown}, {"json", Format::Json}}});

    const Side base = load_side(base_path), next = load_side(new_path);
    const compare::Comparison comparison = compare::compare(base.launches, next.launches, options);
    const ExitCode code = compare::judge(
        comparison, allow_missing ? compare::MissingCases::Allow : compare::MissingCases::Fail,
        is_strict ? compare::Inconclusive::Fail : compare::Inconclusive::Pass);
    const ComparedSides sides{base.description, next.description};
    const std::string text = form == Format::Text ? comparison_text(comparison, sides, code)
                             : form == Format::Markdown
                                 ? comparison_markdown(comparison, sides, code)
                                 : comparison_json(comparison, options, code);
    std::fputs(text.c_str(), stdout);
    return static_cast<int>(code);
}

}  // namespace weightlift::app
