#include "options.hpp"

#include "../text.hpp"

namespace weightlift::app::sweep {

Parsed parse_sweep(const Arguments& arguments, Options& out) {
    std::string ranks, hosts;
    CLI::App app(
        "run many cases under one launch into one results file; the job file is TOML with the "
        "flags of push as keys, lists where they vary, and repetitions, output, labels",
        "mpirun -n RANKS weightlift sweep");
    app.add_option("job", out.path, "job file (jobs/sweeps has examples)")->required();
    app.add_option("--output", out.output,
                   "results file; %j is the Slurm job id (default: the job's, or "
                   "results/<job>-<time>.h5)");
    app.add_option("--labels", out.labels, "text stored with the run");
    app.add_flag("--resume", out.is_resumed,
                 "go on where a killed sweep into the same file stopped");
    app.add_flag(
        "--dry-run", out.is_dry,
        "print the cases with bytes, weights per rank and predicted time (of cluster in the job) "
        "instead; needs no launcher");
    app.add_option("--ranks", ranks, "with --dry-run and no launcher: ranks there will be");
    app.add_option(
        "--hosts", hosts,
        "with --ranks: on so many hosts with this one's memory, which is then looked at");
    app.add_flag("--json", out.as_json, "machine-readable on stdout instead of the table");
    app.add_flag("--quiet", out.is_quiet, "no table, no progress but of failures");
    if (parse_arguments(app, arguments) == Parsed::HelpShown) return Parsed::HelpShown;
    if (!ranks.empty()) {
        if (!out.is_dry) throw ConfigError("--ranks needs --dry-run");
        out.ranks = static_cast<int>(parse_number(ranks, 1, 10'000'000, "--ranks"));
    }
    if (!hosts.empty()) {
        if (!out.ranks) throw ConfigError("--hosts needs --ranks");
        out.hosts = static_cast<int>(
            parse_number(hosts, 1, static_cast<std::uint64_t>(*out.ranks), "--hosts"));
    }
    if (out.is_dry && out.is_resumed)
        throw ConfigError("--dry-run and --resume exclude each other");
    if (out.as_json && out.is_quiet) throw ConfigError("--json and --quiet exclude each other");
    return Parsed::Run;
}

}  // namespace weightlift::app::sweep
