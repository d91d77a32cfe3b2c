// weightlift compare: is NEW slower than BASE?
#include <cstdio>

#include <fmt/format.h>

#include "weightlift/compare/compare.hpp"

#include "catalog.hpp"
#include "commands.hpp"
#include "comparison_text.hpp"
#include "find_results.hpp"
#include "options.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

struct Side {
    std::vector<compare::Launch> launches;
    std::string description;
};

std::string plural(std::size_t count, const char* one, const char* many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

Side load_side(const std::string& given) {
    const std::vector<std::string> files = find_results(given, Unfinished::LeaveOut);
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
