// weightlift show: prints a results file.
#include <cstdio>

#include <fmt/format.h>

#include "weightlift/record/h5_file.hpp"

#include "brief.hpp"
#include "case_table.hpp"
#include "commands.hpp"
#include "options.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

void print_iterations(const record::CaseRecord& one) {
    std::vector<std::vector<std::string>> rows{
        {"iteration", "version", "time ms", "closed ms", "release skew ms", "check"}};
    std::size_t number = 0;
    for (const record::Sample& s : one.samples) {
        rows.push_back({s.warmup ? "warm-up" : std::to_string(number++), std::to_string(s.version),
                        show_ms(s.time_ns), show_ms(s.closed_ns), show_ms(s.release_skew_ns),
                        record::show_check(s.validity)});
    }
    std::fputs((align(rows) + "\n").c_str(), stdout);
}

/// Median over counted iterations of the slowest rank, per phase that was measured.
void print_phases(const record::CaseRecord& one) {
    std::vector<std::vector<std::string>> rows{{"phase (slowest rank)", "median ms"}};
    const auto phases = record::median_phases(one.samples);
    for (std::size_t p = 0; p < record::kPhases; ++p)
        if (phases[p] != record::kNotMeasured)
            rows.push_back(
                {std::string(to_string(static_cast<record::Phase>(p))), show_ms(phases[p])});
    const auto setup = record::slowest_setup(one.setup_ns);
    for (std::size_t p = 0; p < record::kSetupPhases; ++p)
        rows.push_back({fmt::format("set-up: {}", to_string(static_cast<record::SetupPhase>(p))),
                        show_ms(setup[p])});
    std::fputs((align(rows) + "\n").c_str(), stdout);
}

}  // namespace

int run_show(const Arguments& arguments) {
    std::string path;
    bool allow_partial = false, as_json = false, all_iterations = false, is_brief = false,
         is_anonymous = false;
    CLI::App app("print a results file", "weightlift show");
    app.add_option("file", path, "results file (.h5, or .h5.part with --allow-partial)")
        ->required();
    app.add_flag("--allow-partial", allow_partial, "read a run that was killed or still runs");
    app.add_flag("--iterations", all_iterations,
                 "every iteration and the phases, not the summary alone");
    app.add_flag("--brief", is_brief, "at most 40 lines, for a bug report or a paper");
    app.add_flag("--anonymous", is_anonymous, "host names as hashes, in the command line, too");
    app.add_flag("--json", as_json, "machine-readable");
    if (parse_arguments(app, arguments) == Parsed::HelpShown) return 0;
    if (is_brief && (as_json || all_iterations))
        throw ConfigError("--brief excludes --json and --iterations");
    if (is_anonymous && !is_brief) throw ConfigError("--anonymous goes with --brief");

    const record::RunRecord run = record::read_results(path, allow_partial);
    if (is_brief) {
        const std::string text = brief(run);
        std::fputs((is_anonymous ? without_hosts(text, run) : text).c_str(), stdout);
        return 0;
    }
    if (as_json) {
        std::fputs(case_json(run).c_str(), stdout);
        return 0;
    }
    fmt::print("file      {} (schema {})\n", run.path, run.schema);
    fmt::print("status    {}{}\n", run.status,
               run.exit_code >= 0 ? fmt::format(", exit code {}", run.exit_code) : "");
    fmt::print("run       {} by weightlift {} (git {})\n", run.run.run_uuid, run.run.tool_version,
               run.run.git);
    fmt::print("created   {}{}\n", run.run.created_utc,
               run.finished_utc.empty() ? "" : fmt::format(", finished {}", run.finished_utc));
    fmt::print("command   {}\n\n", run.run.command_line);
    for (const auto& one : run.cases) {
        // Of the many cases of a sweep only where all is asked for.
        if (run.cases.size() > 1 && !all_iterations) break;
        if (run.cases.size() > 1)
            fmt::print("{}, repetition {}\n", one.info.key, one.info.repetition);
        fmt::print("plan {:016x}: {} transfers, {} copies, verify {}; {} iterations finished\n",
                   one.info.plan_digest, one.info.transfers, one.info.copies, one.info.verify,
                   std::count_if(one.samples.begin(), one.samples.end(),
                                 [](const auto& s) { return !s.warmup; }));
        if (all_iterations) {
            print_iterations(one);
            print_phases(one);
        }
    }
    std::fputs(case_table(run.cases, run.run.ranks).c_str(), stdout);
    for (const auto& event : run.events)
        fmt::print("event: {} {}: {}\n", event.time_utc, event.kind, event.text);
    return 0;
}

}  // namespace weightlift::app
