// weightlift push: all ranks run this; rank 0 prints and records.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "weightlift/plan/copy.hpp"
#include "weightlift/session/session.hpp"

#include "case_report.hpp"
#include "case_table.hpp"
#include "commands.hpp"
#include "lost_peer.hpp"
#include "preflight.hpp"
#include "push_options.hpp"
#include "run_case.hpp"
#include "run_info.hpp"
#include "termination.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

using record::Sample;
using session::AgreedError;
using session::Agreement;
using session::Session;
using session::Topology;

/// Rank 0's side of a run: the results file and what is printed. Does nothing on other ranks.
class Reporter final : public CaseObserver {
public:
    Reporter(const PushArguments& arguments, const Arguments& command_line, bool is_root)
        : arguments_(arguments), command_line_(command_line), is_root_(is_root) {}

    void open(const std::string& model) {
        if (!is_root_) return;
        gates_ = load_gates(arguments_.gates);
        run_.path = results_path(arguments_.output, model);
        recorder_ = record::create_results(run_.path);
    }

    void begin(Session::Description description) override {
        if (!is_root_) return;
        run_.run = make_run_info(fmt::format("push {}", fmt::join(command_line_, " ")),
                                 arguments_.labels, run_.path);
        run_.run.ranks = description.ranks;
        recorder_->begin_run(run_.run);
        report_.emplace(*recorder_, run_.events);
        report_->begin(std::move(description));
    }

    void iteration(const Sample& sample, const session::Verification& checked) override {
        if (!is_root_) return;
        const bool was_right = report_->mismatch().empty();
        report_->iteration(sample, checked, arguments_.cluster);
        if (was_right && !report_->mismatch().empty()) {
            end_progress();
            fmt::print(stderr, "weightlift: {}\n", report_->mismatch());
        }
        progress(sample);
    }

    void nics(std::vector<record::NicRow> rows) override {
        if (is_root_) report_->nics(std::move(rows));
    }

    void reference(std::uint64_t ns) override {
        reference_ns_ = ns;
        if (is_root_) report_->reference(ns);
    }

    /// What a case that ran to its end comes to; on the other ranks `code`.
    [[nodiscard]] ExitCode judge(ExitCode code) {
        if (!is_root_ || code != ExitCode::Ok) return code;
        const auto& one = report_->record();
        broken_ = broken_gates(gates_, one.info, record::summarize(one.info, one.samples));
        return broken_.empty() ? ExitCode::Ok : ExitCode::Regression;
    }

    void finish(ExitCode code) {
        if (!is_root_) return;
        end_progress();
        report_->hand_over();
        run_.cases = {report_->record()};
        // Below a threshold the measurement is as whole as above it.
        const bool is_whole = code == ExitCode::Ok || code == ExitCode::Regression;
        run_.status = is_whole ? "complete" : "failed";
        run_.exit_code = static_cast<int>(code);
        recorder_->finish(run_.status, code);
        report_.reset();
        recorder_.reset();
        print();
        for (const auto& bound : broken_)
            fmt::print(stderr, "weightlift: {}\n", compare::describe(bound));
        const std::string& key = run_.cases.front().info.key;
        if (!gates_.references.empty() && !has_reference_for(key))
            fmt::print(stderr, "weightlift: note: {} has no reference for {}\n",
                       arguments_.gates.references, key);
    }

    /// After a failure: keeps what was measured, drops a file in which nothing could have been.
    void fail(ExitCode code, const std::string& why) noexcept {
        if (!is_root_ || !recorder_) return;
        try {
            end_progress();
            if (code == ExitCode::Usage || !report_ || !report_->has_begun()) {
                recorder_.reset();
                std::error_code ignored;
                std::filesystem::remove(run_.path + ".part", ignored);
                return;
            }
            report_->event("failure", why);
            recorder_->traffic(0, report_->record().traffic);
            recorder_->finish(is_termination(code) ? "aborted" : "failed", code);
            recorder_.reset();
        } catch (const std::exception& error) {
            fmt::print(stderr, "weightlift: {} stays unfinished: {}\n", run_.path, error.what());
        }
    }

private:
    [[nodiscard]] bool has_reference_for(const std::string& key) const {
        return std::any_of(gates_.references.begin(), gates_.references.end(),
                           [&](const auto& reference) { return reference.key == key; });
    }
    void print() const {
        if (arguments_.is_quiet) return;
        const auto& one = run_.cases.front();
        if (arguments_.as_json) {
            std::fputs(case_json(run_).c_str(), stdout);
            return;
        }
        std::fputs(case_table(run_.cases, run_.run.ranks).c_str(), stdout);
        if (reference_ns_ > 0) {
            const auto summary = record::summarize(one.info, one.samples);
            const double reference =
                static_cast<double>(one.info.bytes) / static_cast<double>(reference_ns_);
            fmt::print("reference: memcpy of the same bytes by the trainers {:.2f} GB/s ({} ms)",
                       reference, show_ms(reference_ns_));
            if (summary.algbw > 0)
                fmt::print("; the push reached {:.2f} of it", summary.algbw / 1e9 / reference);
            std::fputs("\n", stdout);
        }
        fmt::print("results: {}\n", run_.path);
    }
    void progress(const Sample& sample) {
        if (arguments_.is_quiet || isatty(STDERR_FILENO) == 0) return;
        const auto done = report_->record().samples.size();
        fmt::print(stderr, "\r\033[K{} {} of {}: {} ms", sample.warmup ? "warm-up" : "push", done,
                   arguments_.duration.count() > 0
                       ? std::string("many")
                       : std::to_string(arguments_.iterations + arguments_.warmup),
                   show_ms(sample.time_ns));
        std::fflush(stderr);
        has_progress_ = true;
    }
    void end_progress() {
        if (has_progress_) std::fputs("\r\033[K", stderr);
        has_progress_ = false;
    }

    const PushArguments& arguments_;
    const Arguments& command_line_;
    bool is_root_;
    bool has_progress_ = false;
    std::uint64_t reference_ns_ = 0;
    Gates gates_;
    std::vector<compare::OutOfBounds> broken_;
    record::RunRecord run_;
    std::unique_ptr<record::Recorder> recorder_;
    std::optional<CaseReport> report_;
};

/// What doctor is to look at for this run.
doctor::Asked asked_of(const PushArguments& a, const CaseInputs& inputs, int rank) {
    const auto& [scene, roles] = inputs;
    const Rank plan_rank = roles.plan_rank[static_cast<std::size_t>(rank)];
    const bool is_trainer = roles.side(rank) == layout::Side::Trainer;
    const plan::ArenaMap map(is_trainer ? scene.trainer : scene.rollout,
                             is_trainer ? plan_rank : plan_rank - roles.trainers);
    return {a.push.transport, a.push.verbs, map.bytes(), a.output};
}

int push_agreed(const mpi::Communicator& world, const Agreement& agreement,
                const Topology& topology, mpi::Watchdog& watchdog, const PushArguments& a,
                Reporter& reporter) {
    const CaseInputs inputs = load_case(agreement, a);
    const Scene& scene = inputs.scene;
    if (a.has_preflight)
        run_preflight({agreement, watchdog, topology}, asked_of(a, inputs, world.rank()));
    if (world.rank() == 0)
        for (const std::string& note : scene.notes)
            fmt::print(stderr, "weightlift: note: {}\n", note);
    agreement.run("results file", [&](const mpi::Deadline&) { reporter.open(scene.model.name()); });

    const ExitCode pushed = run_case({agreement, watchdog, topology}, a, inputs, reporter);
    const auto code = static_cast<ExitCode>(world.max(static_cast<int>(reporter.judge(pushed)),
                                                      mpi::Deadline(a.push.timeout), "result"));
    agreement.run("results file", [&](const mpi::Deadline&) { reporter.finish(code); });
    return static_cast<int>(code);
}

/// Everything between MPI_Init and MPI_Finalize.
int push_on(mpi::Communicator& world, mpi::Watchdog& watchdog, const PushArguments& a,
            const std::optional<ConfigError>& bad, const Arguments& arguments) {
    Reporter reporter(a, arguments, world.rank() == 0);
    try {
        note_termination();
        world.set_stop(termination);
        const Topology topology = Topology::discover(world, mpi::Deadline(a.push.timeout));
        // By value: the handlers below name ranks, too.
        const auto label = [topology](int rank) { return topology.label(rank); };
        world.set_labels(label);
        const Agreement agreement(world, label, a.push.timeout);
        agreement.run("arguments", [&](const mpi::Deadline&) {
            if (bad) throw ConfigError(bad->what());
            require_whole_world(world);
        });
        for (const auto& [flag, digest] : digests_of(a))
            agreement.require_equal(digest, flag.c_str(), "arguments");
        return push_agreed(world, agreement, topology, watchdog, a, reporter);
    } catch (const AgreedError& error) {
        reporter.fail(error.code(), error.what());
        if (world.rank() == 0) fmt::print(stderr, "weightlift: {}\n", error.what());
        return static_cast<int>(error.code());
    } catch (const Error& error) {
        // A peer that is lost while the job is being ended is no finding.
        const auto told = termination();
        const ExitCode code = told ? told->code() : error.code();
        const std::string why =
            told ? fmt::format("{}; {}", told->what(), error.what()) : error.what();
        reporter.fail(code, why);
        abort_all(world, code, why);
    } catch (const std::exception& error) {
        reporter.fail(ExitCode::Internal, error.what());
        abort_all(world, ExitCode::Internal, fmt::format("internal error: {}", error.what()));
    }
}

}  // namespace

int run_push(const Arguments& arguments, int* argc, char*** argv) {
    PushArguments a;
    std::optional<ConfigError> bad;
    try {
        if (parse_push(arguments, a) == Parsed::HelpShown) return 0;
    } catch (const ConfigError& error) {
        // Under a launcher one rank has to speak for all, which takes MPI.
        if (mpi::launcher_world_size() <= 1) throw;
        bad = error;
    }
    return run_on_ranks(argc, argv, a.push.timeout,
                        [&](mpi::Communicator& world, mpi::Watchdog& watchdog) {
                            return push_on(world, watchdog, a, bad, arguments);
                        });
}

}  // namespace weightlift::app
