// weightlift doctor: is this machine, or are these, fit for a push?
#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/mpi/communicator.hpp"
#include "weightlift/session/agreement.hpp"
#include "weightlift/session/topology.hpp"
#include "weightlift/transport/registry.hpp"

#include "commands.hpp"
#include "doctor/examination.hpp"
#include "lost_peer.hpp"
#include "options.hpp"
#include "text.hpp"
#include "verbs_options.hpp"

namespace weightlift::app {

namespace {

using doctor::Examination;
using doctor::Verdict;

struct DoctorArguments {
    doctor::Asked asked;
    std::chrono::nanoseconds timeout = std::chrono::seconds(60);
    bool as_json = false;
};

Parsed parse_doctor(const Arguments& arguments, DoctorArguments& out) {
    std::string registered, timeout = "60s";
    CLI::App app("check that this machine, or all that a launcher starts it on, are fit for a push",
                 "[mpirun -n RANKS] weightlift doctor");
    app.add_option("--transport", out.asked.transport,
                   fmt::format("check for this one only: {}",
                               fmt::join(transport::transport_names(), ", ")))
        ->capture_default_str();
    app.add_option(
        "--register", registered,
        "bytes of weights a rank will register; checked against the locked-memory limit");
    app.add_option("--output", out.asked.output,
                   "results file that a push is to write (default: one in results/)");
    const auto fill_verbs = add_verbs_options(app, out.asked.verbs);
    app.add_option("--timeout", timeout, "deadline of each phase")->capture_default_str();
    app.add_flag("--json", out.as_json, "machine-readable (schema weightlift-doctor/1)");
    if (parse_arguments(app, arguments) == Parsed::HelpShown) return Parsed::HelpShown;
    fill_verbs();
    if (out.asked.transport != "auto")
        static_cast<void>(transport::transport_capabilities(out.asked.transport));
    if (!registered.empty()) out.asked.registered = parse_bytes(registered, "--register");
    out.timeout = parse_duration(timeout, "--timeout");
    if (out.timeout < std::chrono::milliseconds(10))
        throw ConfigError(fmt::format("--timeout {}: must be at least 10ms", timeout));
    return Parsed::Run;
}

int code_of(Verdict verdict) {
    return static_cast<int>(verdict == Verdict::Fail ? ExitCode::Preflight : ExitCode::Ok);
}

void print_table(std::span<const doctor::Folded> findings, const Examination& examination) {
    std::fputs(doctor::table(findings, examination.reports).c_str(), stdout);
    std::fflush(stdout);
}

/// Prints on rank 0 as things become known.
class Bedside {
public:
    explicit Bedside(bool as_json) : as_json_(as_json) {}

    void before_writes(const Examination& examination) {
        if (as_json_) return;
        fmt::print("{}\n", doctor::title(examination.reports));
        print_table(examination.findings, examination);
        printed_ = examination.findings.size();
    }
    void finish(const Examination& examination) const {
        if (as_json_) {
            std::fputs(doctor::report_json(examination.findings, examination.reports).c_str(),
                       stdout);
            return;
        }
        print_table(std::span(examination.findings).subspan(printed_), examination);
        fmt::print("{}\n", doctor::footer(examination.findings));
    }

private:
    bool as_json_;
    std::size_t printed_ = 0;
};

/// Everything between MPI_Init and MPI_Finalize.
int doctor_on(mpi::Communicator& world, mpi::Watchdog& watchdog, const DoctorArguments& a,
              const std::optional<ConfigError>& bad) {
    try {
        const auto topology = session::Topology::discover(world, mpi::Deadline(a.timeout));
        // By value: the handlers below name ranks, too.
        const auto label = [topology](int rank) { return topology.label(rank); };
        world.set_labels(label);
        const session::Agreement agreement(world, label, a.timeout);
        agreement.run("arguments", [&](const mpi::Deadline&) {
            if (bad) throw ConfigError(bad->what());
        });
        Bedside bedside(a.as_json);
        const auto examination =
            doctor::examine({agreement, watchdog, topology}, a.asked,
                            [&](const Examination& so_far) { bedside.before_writes(so_far); });
        if (world.rank() == 0) bedside.finish(examination);
        return code_of(examination.verdict);
    } catch (const session::AgreedError& error) {
        if (world.rank() == 0) fmt::print(stderr, "weightlift: {}\n", error.what());
        return static_cast<int>(error.code());
    } catch (const DeadlineError& error) {
        abort_all(world, ExitCode::Preflight, error.what());
    } catch (const Error& error) {
        abort_all(world, error.code(), error.what());
    } catch (const std::exception& error) {
        abort_all(world, ExitCode::Internal, fmt::format("internal error: {}", error.what()));
    }
}

}  // namespace

int run_doctor(const Arguments& arguments, int* argc, char*** argv) {
    DoctorArguments a;
    std::optional<ConfigError> bad;
    try {
        if (parse_doctor(arguments, a) == Parsed::HelpShown) return 0;
    } catch (const ConfigError& error) {
        // Under a launcher one rank has to speak for all, which takes MPI.
        if (mpi::launcher_world_size() <= 1) throw;
        bad = error;
    }
    if (mpi::launcher_world_size() == 0) {
        const auto examination = doctor::examine_alone(a.asked);
        Bedside bedside(a.as_json);
        bedside.before_writes(examination);
        bedside.finish(examination);
        return code_of(examination.verdict);
    }
    return run_on_ranks(argc, argv, a.timeout,
                        [&](mpi::Communicator& world, mpi::Watchdog& watchdog) {
                            return doctor_on(world, watchdog, a, bad);
                        });
}

}  // namespace weightlift::app
