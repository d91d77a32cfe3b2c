// weightlift push: all ranks run this; rank 0 prints and records.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/plan/copy.hpp"
#include "weightlift/plan/planner.hpp"
#include "weightlift/plan/statistics.hpp"
#include "weightlift/session/session.hpp"
#include "weightlift/sim/cluster.hpp"

#include "case_table.hpp"
#include "catalog.hpp"
#include "commands.hpp"
#include "lost_peer.hpp"
#include "preflight.hpp"
#include "push_options.hpp"
#include "run_info.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

using record::Sample;
using record::Validity;
using session::AgreedError;
using session::Agreement;
using session::Session;
using session::Topology;
using session::Verify;

/// Rank 0's side of a run: the results file and what is printed. Does nothing on other ranks.
class Reporter {
public:
    Reporter(const PushArguments& arguments, bool is_root)
        : arguments_(arguments), is_root_(is_root) {}
    Reporter(const Reporter&) = delete;
    Reporter& operator=(const Reporter&) = delete;

    void open(const std::string& model) {
        if (!is_root_) return;
        gates_ = parse_gates(arguments_.gates);
        if (const std::string& file = arguments_.gates.references; !file.empty())
            gates_.references = compare::parse_references(read_text(file), file);
        run_.path = results_path(arguments_.output, model);
        recorder_ = record::create_results(run_.path);
    }

    void begin(const Arguments& command_line, Session::Description description) {
        if (!is_root_) return;
        run_.run = make_run_info(command_line, arguments_.labels, run_.path);
        run_.run.ranks = std::move(description.ranks);
        recorder_->begin_run(run_.run);
        recorder_->begin_case(description.info, run_.run.ranks.size(), description.setup_ns);
        run_.cases.push_back({std::move(description.info),
                              std::move(description.setup_ns),
                              {},
                              {},
                              std::move(description.traffic),
                              {}});
        for (const record::Event& e : description.events) {
            event(e.kind, e.text, e.rank);
            if (e.kind == "fallback") fmt::print(stderr, "weightlift: note: {}\n", e.text);
        }
    }

    void iteration(const Sample& sample, const session::Verification& checked) {
        if (!is_root_) return;
        auto& one = run_.cases.front();
        if (one.info.floor_ns != record::kNotMeasured && sample.time_ns != 0 &&
            static_cast<double>(sample.time_ns) < 0.95 * static_cast<double>(one.info.floor_ns))
            throw Error(
                ExitCode::Internal,
                fmt::format("a push took {} ms, less than 0.95 of the floor of {} ms on {}: the "
                            "rates given or the measurement are wrong",
                            show_ms(sample.time_ns), show_ms(one.info.floor_ns),
                            arguments_.cluster));
        recorder_->iteration(0, sample);
        one.samples.push_back(sample);
        if (!checked.fingerprints.empty() && (checked.is_right || !has_mismatch_))
            one.fingerprints = checked.fingerprints;
        if (!checked.is_right && !has_mismatch_) {
            has_mismatch_ = true;
            end_progress();
            fmt::print(stderr,
                       "weightlift: wrong data in version {}: {} ({} wrong elements in all)\n",
                       sample.version, checked.mismatch, checked.wrong_elements);
            event("mismatch", checked.mismatch);
        }
        progress(sample);
    }

    void event(const std::string& kind, const std::string& text, int rank = 0) {
        const record::Event event{utc_now(), kind, text, rank};
        if (recorder_) recorder_->event(event);
        run_.events.push_back(event);
    }

    void nics(std::vector<record::NicRow> rows) {
        if (is_root_) run_.cases.front().nics = std::move(rows);
    }

    /// Ok on the other ranks.
    [[nodiscard]] ExitCode judge() {
        if (!is_root_) return ExitCode::Ok;
        if (has_mismatch_) return ExitCode::WrongData;
        const auto& one = run_.cases.front();
        broken_ = broken_gates(gates_, one.info, record::summarize(one.info, one.samples));
        return broken_.empty() ? ExitCode::Ok : ExitCode::Regression;
    }

    void finish(ExitCode code) {
        if (!is_root_) return;
        end_progress();
        const auto& one = run_.cases.front();
        recorder_->fingerprints(0, one.fingerprints);
        recorder_->traffic(0, one.traffic);
        recorder_->nics(0, one.nics);
        // Below a threshold the measurement is as whole as above it.
        const bool is_whole = code == ExitCode::Ok || code == ExitCode::Regression;
        run_.status = is_whole ? "complete" : "failed";
        run_.exit_code = static_cast<int>(code);
        recorder_->finish(run_.status, code);
        recorder_.reset();
        print();
        for (const auto& bound : broken_)
            fmt::print(stderr, "weightlift: {}\n", compare::describe(bound));
        if (!gates_.references.empty() && !has_reference_for(one.info.key))
            fmt::print(stderr, "weightlift: note: {} has no reference for {}\n",
                       arguments_.gates.references, one.info.key);
    }

    /// After a failure: keeps what was measured, drops a file in which nothing could have been.
    void fail(ExitCode code, const std::string& why) noexcept {
        if (!is_root_ || !recorder_) return;
        try {
            end_progress();
            if (code == ExitCode::Usage || run_.cases.empty()) {
                recorder_.reset();
                std::error_code ignored;
                std::filesystem::remove(run_.path + ".part", ignored);
                return;
            }
            event("failure", why);
            recorder_->traffic(0, run_.cases.front().traffic);
            recorder_->finish("failed", code);
            recorder_.reset();
        } catch (const std::exception& error) {
            fmt::print(stderr, "weightlift: {} stays unfinished: {}\n", run_.path, error.what());
        }
    }

    void reference(std::uint64_t ns) {
        reference_ns_ = ns;
        if (is_root_)
            event("reference", fmt::format("memcpy of the same bytes by the trainers: {} ns", ns));
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
        const auto done = run_.cases.front().samples.size();
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
    bool is_root_;
    bool has_mismatch_ = false, has_progress_ = false;
    std::uint64_t reference_ns_ = 0;
    Gates gates_;
    std::vector<compare::OutOfBounds> broken_;
    record::RunRecord run_;
    std::unique_ptr<record::Recorder> recorder_;
};

std::string layouts_need(const Scene& scene, int launched) {
    const Rank t = scene.trainer.world_size(), r = scene.rollout.world_size();
    return fmt::format("ranks launched: {}, but the layouts need {} (trainer) + {} (rollout) = {}",
                       launched, t, r, t + r);
}

session::Roles make_roles(const PushArguments& a, const Scene& scene,
                          const mpi::Communicator& world, const mpi::Deadline& deadline) {
    const Rank t = scene.trainer.world_size(), r = scene.rollout.world_size();
    if (!a.roles.empty()) return session::parse_roles(a.roles, t, r);
    // Every rank takes part in this, whether or not it was given a role.
    const char mine = a.role.empty() ? '-' : a.role.front();
    const auto all = world.gather(mine, deadline, "roles");
    mpi::Bytestring bytes(all.size());
    std::transform(all.begin(), all.end(), bytes.begin(),
                   [](char c) { return static_cast<std::byte>(c); });
    world.broadcast(bytes, deadline, "roles");
    std::vector<layout::Side> sides;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const char c = static_cast<char>(bytes[i]);
        if ((c == '-') != (static_cast<char>(bytes[0]) == '-'))
            throw ConfigError(fmt::format("--role is given on some ranks but not on rank {}",
                                          c == '-' ? i : std::size_t{0}));
        sides.push_back(c == 't' ? layout::Side::Trainer : layout::Side::Rollout);
    }
    return a.role.empty() ? session::default_roles(t, r) : session::roles_from(sides, t, r);
}

/// What doctor is to look at for this run.
doctor::Asked asked_of(const PushArguments& a, const Scene& scene, const session::Roles& roles,
                       int rank) {
    const Rank plan_rank = roles.plan_rank[static_cast<std::size_t>(rank)];
    const bool is_trainer = roles.side(rank) == layout::Side::Trainer;
    const plan::ArenaMap map(is_trainer ? scene.trainer : scene.rollout,
                             is_trainer ? plan_rank : plan_rank - roles.trainers);
    return {a.push.transport, a.push.verbs, map.bytes(), a.output};
}

void set_floor(record::CaseInfo& info, const PushArguments& a, const Scene& scene,
               const Topology& topology, const session::Roles& roles) {
    if (a.cluster.empty()) return;
    // The plan that is pushed: holders on a destination's node come first.
    plan::PlanOptions options;
    options.minimum_slice = a.push.minimum_slice;
    for (const int rank : roles.mpi_rank)
        options.node.push_back(topology.node[static_cast<std::size_t>(rank)]);
    const plan::Planner planner(scene.model, scene.trainer, scene.rollout, options);
    const sim::Cluster cluster = sim::parse_cluster(cluster_text(a.cluster));
    const auto prediction =
        sim::predict(plan::gather_statistics(planner), scene.trainer.world_size(), cluster);
    info.floor_ns = static_cast<std::uint64_t>(prediction.seconds() * 1e9);
    info.line_rate = static_cast<std::uint64_t>(cluster.port_rate);
}

int push_agreed(const mpi::Communicator& world, const Agreement& agreement,
                const Topology& topology, mpi::Watchdog& watchdog, const PushArguments& a,
                const Arguments& command_line, Reporter& reporter) {
    std::optional<Scene> scene;
    session::Roles roles;
    agreement.run("configuration", [&](const mpi::Deadline&) {
        scene.emplace(load_scene(a.scene, world.size()));
        if (world.size() != scene->trainer.world_size() + scene->rollout.world_size())
            throw ConfigError(layouts_need(*scene, world.size()));
    });
    agreement.run("roles", [&](const mpi::Deadline& deadline) {
        roles = make_roles(a, *scene, world, deadline);
    });
    agreement.run("arguments", [&](const mpi::Deadline&) {
        const auto& flip = a.push.inject.flip;
        if (flip &&
            (flip->first >= world.size() || roles.side(flip->first) == layout::Side::Trainer))
            throw ConfigError(fmt::format("--inject flip: rank {} is not a rollout", flip->first));
    });
    agreement.require_equal(mix(scene->trainer.digest(), scene->rollout.digest()), "the layout",
                            "configuration");
    if (a.has_preflight)
        run_preflight({agreement, watchdog, topology}, asked_of(a, *scene, roles, world.rank()));
    if (world.rank() == 0)
        for (const std::string& note : scene->notes)
            fmt::print(stderr, "weightlift: note: {}\n", note);
    agreement.run("results file",
                  [&](const mpi::Deadline&) { reporter.open(scene->model.name()); });

    Session session(agreement, watchdog,
                    {scene->model, scene->trainer, scene->rollout, topology, roles}, a.push);
    session.setup();
    auto description = session.describe();
    agreement.run("results file", [&](const mpi::Deadline&) {
        description.info.options = options_json(a);
        if (world.rank() == 0) set_floor(description.info, a, *scene, topology, roles);
        reporter.begin(command_line, std::move(description));
    });
    if (a.has_reference) reporter.reference(session.reference_copy_ns());

    const mpi::Deadline until(a.duration);
    std::uint64_t pushed = 0;
    const auto goes_on = [&] {
        if (a.duration.count() == 0) return pushed < a.warmup + a.iterations;
        const mpi::Deadline deadline(a.push.timeout);
        // At least one counted push; rank 0's clock decides for all.
        const bool wants_more = pushed <= a.warmup || !until.passed();
        return world.max(world.rank() == 0 && wants_more ? 1 : 0, deadline, "duration") == 1;
    };
    while (goes_on()) {
        if (pushed > 0 && a.interval.count() > 0) std::this_thread::sleep_for(a.interval);
        const std::uint64_t version = ++pushed;
        Sample sample = session.push(version, version <= a.warmup);
        session::Verification checked;
        if (a.push.verify != Verify::None) {
            checked = session.verify(version);
            sample.validity = checked.is_right ? Validity::Valid : Validity::Wrong;
            for (std::size_t r = 0; r < checked.rank_ns.size(); ++r)
                sample.phase_ns[r][static_cast<std::size_t>(record::Phase::Verify)] =
                    checked.rank_ns[r];
        }
        agreement.run("recording",
                      [&](const mpi::Deadline&) { reporter.iteration(sample, checked); });
    }
    reporter.nics(session.nic_traffic());
    const auto code = static_cast<ExitCode>(
        world.max(static_cast<int>(reporter.judge()), mpi::Deadline(a.push.timeout), "result"));
    agreement.run("results file", [&](const mpi::Deadline&) { reporter.finish(code); });
    return static_cast<int>(code);
}

/// Everything between MPI_Init and MPI_Finalize.
int push_on(mpi::Communicator& world, mpi::Watchdog& watchdog, const PushArguments& a,
            const std::optional<ConfigError>& bad, const Arguments& arguments) {
    Reporter reporter(a, world.rank() == 0);
    try {
        const Topology topology = Topology::discover(world, mpi::Deadline(a.push.timeout));
        // By value: the handlers below name ranks, too.
        const auto label = [topology](int rank) { return topology.label(rank); };
        world.set_labels(label);
        const Agreement agreement(world, label, a.push.timeout);
        agreement.run("arguments", [&](const mpi::Deadline&) {
            if (bad) throw ConfigError(bad->what());
            if (const int launched = mpi::launcher_world_size(); launched > world.size())
                throw ConfigError(
                    fmt::format("the launcher started {} tasks, but MPI sees a world of {}: "
                                "this program's MPI is not the launcher's",
                                launched, world.size()));
        });
        for (const auto& [flag, digest] : digests_of(a))
            agreement.require_equal(digest, flag.c_str(), "arguments");
        return push_agreed(world, agreement, topology, watchdog, a, arguments, reporter);
    } catch (const AgreedError& error) {
        reporter.fail(error.code(), error.what());
        if (world.rank() == 0) fmt::print(stderr, "weightlift: {}\n", error.what());
        return static_cast<int>(error.code());
    } catch (const DeadlineError& error) {
        reporter.fail(error.code(), error.what());
        abort_all(world, error.code(), error.what());
    } catch (const Error& error) {
        reporter.fail(error.code(), error.what());
        abort_all(world, error.code(), error.what());
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
