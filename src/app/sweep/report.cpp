#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "weightlift/record/resume.hpp"

#include "../case_table.hpp"
#include "../gates.hpp"
#include "../run_info.hpp"
#include "../text.hpp"

namespace weightlift::app::sweep {

namespace {

using record::kNotMeasured;

std::string job_name(const Options& options) {
    return std::filesystem::path(options.path).stem().string();
}

/// Roles differ from case to case: here only who is where.
std::vector<record::RankInfo> world_ranks(const session::Topology& topology) {
    std::vector<record::RankInfo> ranks;
    for (std::size_t r = 0; r < topology.hosts.size(); ++r) {
        record::RankInfo& rank = ranks.emplace_back();
        rank.role = "any";
        rank.rank = static_cast<std::int32_t>(r);
        rank.plan_rank = -1;
        rank.host = topology.hosts[r];
        rank.node = topology.node[r];
        rank.local_rank = topology.local_rank[r];
    }
    return ranks;
}

std::string count(std::size_t number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

bool is_same(const Case& one, const record::CaseInfo& info) {
    return one.repetition == info.repetition && identity(one.settings) == info.settings;
}

/// What a case costs, as bytes to be moved: those of its pushes, and some for each push and for
/// setting up.
double work_of(const Case& one) {
    constexpr double kOverhead = 16e6;
    const double pushes = one.pushes > 0 ? static_cast<double>(one.pushes) : 10;
    return (pushes + 10) * (static_cast<double>(one.bytes) + kOverhead);
}

/// A case that failed before it could say more.
record::CaseInfo info_of(const Case& one) {
    record::CaseInfo info;
    info.model = one.model;
    info.trainer = one.trainer;
    info.rollout = one.rollout;
    info.strategy = one.push.has_auto_strategy ? "auto" : plan::to_string(one.push.push.strategy);
    info.transport = one.push.push.transport;
    info.verify = "none";  // nothing has been
    info.memory = memory::to_string(one.push.push.memory);
    info.options = options_json(one.push);
    info.parameters = one.parameters;
    info.unique_bytes = one.model_bytes;
    info.key = one.name;
    info.settings = identity(one.settings);
    info.repetition = one.repetition;
    return info;
}

}  // namespace

ExitCode gravest(ExitCode a, ExitCode b) {
    for (const ExitCode code : {ExitCode::Internal, ExitCode::WrongData, ExitCode::Deadline,
                                ExitCode::Transport, ExitCode::ResultsFile, ExitCode::Regression,
                                ExitCode::NotComparable, ExitCode::Preflight, ExitCode::Usage})
        if (code == a || code == b) return code;
    return ExitCode::Ok;
}

std::vector<bool> Report::open(const std::string& command_line, const session::Topology& topology) {
    ended_.assign(cases_.size(), false);
    if (!is_root_) return ended_;
    const std::string& output = options_.output.empty() ? job_.output : options_.output;
    if (options_.is_resumed && output.empty())
        throw ConfigError("--resume needs --output, or output in the job: the file to go on with");
    for (const Case& one : cases_) static_cast<void>(load_gates(one.push.gates));  // or refuse now
    list_skipped();
    run_.path = results_path(output, job_name(options_));
    std::error_code ignored;
    if (options_.is_resumed && !record::has_unfinished(run_.path) &&
        std::filesystem::exists(run_.path, ignored)) {
        accept_finished();
        return ended_;
    }
    if (options_.is_resumed) {
        take_over(ended_, topology);
        if (recorder_) return ended_;
    } else if (record::has_unfinished(run_.path)) {
        throw ResultsError(fmt::format(
            "results file {}.part is of a sweep that was killed or still runs; --resume goes on "
            "with it",
            run_.path));
    }
    recorder_ = record::create_results(run_.path);
    run_.run = make_run_info(command_line, options_.labels.empty() ? job_.labels : options_.labels,
                             run_.path);
    run_.run.ranks = world_ranks(topology);
    recorder_->begin_run(run_.run);
    for (const Case& one : cases_)
        if (!one.can_run() && one.repetition == 0) {
            run_.events.push_back({utc_now(), "skipped", one.name + ": " + one.rule, 0});
            recorder_->event(run_.events.back());
        }
    return ended_;
}

void Report::take_over(std::vector<bool>& ended, const session::Topology& topology) {
    auto left = record::read_unfinished(run_.path);
    if (!left) {
        record::set_aside(run_.path);
        return;
    }
    const auto require_same = [&](const std::string& then, const std::string& now) {
        if (then != now)
            throw ConfigError(fmt::format("--resume: {} began with {}, and this launch has {}",
                                          left->path, then, now));
    };
    require_same("version " + left->run.tool_version, "version " + version_number());
    require_same("git " + left->run.git, "git " + git_revision());
    require_same(count(left->run.ranks.size(), "rank"), count(topology.hosts.size(), "rank"));
    record::set_aside(run_.path);
    recorder_ = record::create_results(run_.path);
    run_.run = std::move(left->run);
    recorder_->begin_run(run_.run);
    run_.events = std::move(left->events);
    for (record::CaseRecord& one : left->cases) {
        const auto found = std::find_if(cases_.begin(), cases_.end(), [&](const Case& c) {
            return c.can_run() && is_same(c, one.info);
        });
        if (found == cases_.end() || !one.outcome) continue;
        record::copy_case(*recorder_, one);
        ended[static_cast<std::size_t>(found - cases_.begin())] = true;
        run_.cases.push_back(std::move(one));
    }
    run_.events.push_back({utc_now(), "resume",
                           fmt::format("on {}, after {} that ended", topology.hosts.front(),
                                       count(run_.cases.size(), "case")),
                           0});
    for (const record::Event& event : run_.events) recorder_->event(event);
    record::drop_aside(run_.path);
    if (!options_.is_quiet)
        fmt::print(stderr, "weightlift: {} goes on after {} that ended\n", run_.path,
                   count(run_.cases.size(), "case"));
}

void Report::accept_finished() {
    const record::RunRecord done = record::read_results(run_.path, false);
    for (std::size_t i = 0; i < cases_.size(); ++i)
        ended_[i] = std::any_of(done.cases.begin(), done.cases.end(),
                                [&](const auto& one) { return is_same(cases_[i], one.info); });
    for (std::size_t i = 0; i < cases_.size(); ++i)
        if (cases_[i].can_run() && !ended_[i])
            throw ResultsError(
                fmt::format("results file {} is finished, and lacks {}: a sweep with it needs a "
                            "file of its own",
                            run_.path, cases_[i].name));
    fmt::print(stderr, "weightlift: {} is finished: nothing is left to do\n", run_.path);
    finished_ = static_cast<ExitCode>(done.exit_code);
}

void Report::list_skipped() {
    for (const Case& one : cases_)
        if (!one.can_run() && one.repetition == 0)
            fmt::print(stderr, "weightlift: skipped {}: {}\n", one.name, one.rule);
}

void Report::start() {
    if (!is_root_) return;
    current_.emplace(*recorder_, run_.events);
    started_ = std::chrono::steady_clock::now();
}

void Report::end(const Case& one, ExitCode code, std::string reason) {
    if (!is_root_) return;
    if (code == ExitCode::Ok) {
        const record::CaseRecord& pushed = current_->record();
        for (const auto& bound : broken_gates(load_gates(one.push.gates), pushed.info,
                                              record::summarize(pushed.info, pushed.samples))) {
            code = ExitCode::Regression;
            reason += (reason.empty() ? "" : "; ") + compare::describe(bound);
        }
    }
    if (!current_->has_begun()) {
        record::SetupTimes nothing;
        nothing.fill(kNotMeasured);
        current_->begin(info_of(one), std::vector<record::SetupTimes>(
                                          static_cast<std::size_t>(one.ranks()), nothing));
    }
    const bool is_right = code == ExitCode::Ok;
    // Below a threshold the measurement is as whole as above it.
    const bool is_whole = is_right || code == ExitCode::Regression;
    current_->end({is_whole ? "complete" : "failed", static_cast<std::int32_t>(code), reason});
    run_.cases.push_back(current_->record());
    ended_[static_cast<std::size_t>(&one - cases_.data())] = true;
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    work_ += work_of(one);
    const auto& done = run_.cases.back();
    const record::Summary summary = record::summarize(done.info, done.samples);
    say(one, is_right
                 ? fmt::format("{} ms, {} GB/s", show_ms(summary.p50_ns), show_rate(summary.algbw))
                 : fmt::format("failed with {}: {}", static_cast<int>(code), reason));
    current_.reset();
}

void Report::say(const Case& one, const std::string& what) {
    if (options_.is_quiet && run_.cases.back().outcome->exit_code == 0) return;
    const auto runnable =
        std::count_if(cases_.begin(), cases_.end(), [](const Case& c) { return c.can_run(); });
    const auto done = std::count(ended_.begin(), ended_.end(), true);
    fmt::print(stderr, "[{}/{}] {}{}: {}{}\n", done, runnable, one.name,
               job_.repetitions > 1 ? fmt::format(" #{}", one.repetition) : "", what, time_left());
}

std::string Report::time_left() const {
    double left = 0;
    for (std::size_t i = 0; i < cases_.size(); ++i)
        if (cases_[i].can_run() && !ended_[i]) left += work_of(cases_[i]);
    if (left == 0) return "";
    const auto seconds = std::llround(left * seconds_ / work_);
    return seconds >= 60 ? fmt::format("; some {} min left", (seconds + 30) / 60)
                         : fmt::format("; some {} s left", std::max(seconds, 1LL));
}

ExitCode Report::finish() {
    ExitCode worst = ExitCode::Ok;
    if (!is_root_) return worst;
    if (finished_) return *finished_;
    std::size_t failed = 0;
    for (const auto& one : run_.cases) {
        worst = gravest(worst, static_cast<ExitCode>(one.outcome->exit_code));
        failed += one.outcome->exit_code != 0 ? 1 : 0;
    }
    const bool is_whole = worst == ExitCode::Ok || worst == ExitCode::Regression;
    run_.status = is_whole ? "complete" : "failed";
    run_.exit_code = static_cast<int>(worst);
    recorder_->finish(run_.status, worst);
    recorder_.reset();
    if (options_.is_quiet) return worst;
    if (options_.as_json) {
        std::fputs(case_json(run_).c_str(), stdout);
        return worst;
    }
    std::fputs(case_table(run_.cases, run_.run.ranks).c_str(), stdout);
    const auto skipped =
        std::count_if(cases_.begin(), cases_.end(), [](const Case& c) { return !c.can_run(); });
    fmt::print("{}: {} complete, {} failed, {} skipped\nresults: {}\n",
               count(cases_.size(), "case"), run_.cases.size() - failed, failed, skipped,
               run_.path);
    return worst;
}

void Report::abandon() noexcept {
    if (!is_root_ || !recorder_) return;
    recorder_.reset();
    try {
        if (run_.cases.empty() && !(current_ && current_->has_begun())) {
            std::filesystem::remove(run_.path + ".part");
            return;
        }
        fmt::print(stderr, "weightlift: {}.part keeps the {} that ended; --resume goes on\n",
                   run_.path, count(run_.cases.size(), "case"));
    } catch (const std::exception& error) {
        fmt::print(stderr, "weightlift: {}.part: {}\n", run_.path, error.what());
    }
}

}  // namespace weightlift::app::sweep
