// weightlift sweep: many cases under one launch. All ranks run this; rank 0 prints and records.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/hash.hpp"

#include "catalog.hpp"
#include "commands.hpp"
#include "lost_peer.hpp"
#include "run_case.hpp"
#include "sweep/cases.hpp"
#include "sweep/cast.hpp"
#include "sweep/dry_run.hpp"
#include "sweep/options.hpp"
#include "sweep/report.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

using session::AgreedError;
using session::Agreement;
using session::Topology;
using sweep::Case;
using sweep::Cast;
using sweep::Hosts;

/// Puts the name of the job before what is wrong with it.
std::vector<Case> read_cases(const std::string& path, sweep::Job& job, std::optional<int> launched,
                             const Hosts& hosts) {
    const std::string text = read_text(path);
    try {
        job = sweep::parse_job(text);
        return sweep::make_cases(job, launched, hosts);
    } catch (const ConfigError& error) {
        throw ConfigError(fmt::format("{}: {}", path, error.what()));
    }
}

/// Collective. The same on all ranks, which must come to the same cases.
Hosts find_hosts(const mpi::Communicator& world, const Topology& topology,
                 const mpi::Deadline& deadline) {
    const auto available = world.gather(memory::available_host_memory(), deadline, "memory");
    Hosts hosts(topology.node_size.size());
    for (std::size_t r = 0; r < topology.node.size(); ++r) {
        sweep::Host& host = hosts[static_cast<std::size_t>(topology.node[r])];
        if (host.ranks.empty()) host.name = topology.hosts[r];
        // A rank may be in a group of its own that is limited further.
        if (world.rank() == 0)
            host.memory = host.ranks.empty() ? available[r] : std::min(host.memory, available[r]);
        host.ranks.push_back(static_cast<int>(r));
    }
    mpi::Bytestring bytes(hosts.size() * sizeof(Bytes));
    for (std::size_t h = 0; h < hosts.size(); ++h)
        std::memcpy(&bytes[h * sizeof(Bytes)], &hosts[h].memory, sizeof(Bytes));
    world.broadcast(bytes, deadline, "memory");
    for (std::size_t h = 0; h < hosts.size(); ++h)
        std::memcpy(&hosts[h].memory, &bytes[h * sizeof(Bytes)], sizeof(Bytes));
    return hosts;
}

/// --hosts N: like this one, with equal blocks of the ranks.
Hosts hosts_like_this(int hosts, int ranks) {
    const int block = (ranks + hosts - 1) / hosts;
    Hosts out(static_cast<std::size_t>(hosts));
    for (int h = 0; h < hosts; ++h) {
        out[static_cast<std::size_t>(h)] = {
            fmt::format("{} of {}", h + 1, hosts), {}, memory::available_host_memory()};
        for (int r = h * block; r < std::min(ranks, (h + 1) * block); ++r)
            out[static_cast<std::size_t>(h)].ranks.push_back(r);
    }
    return out;
}

/// Writes what a case says where the sweep's results go, and keeps the others awake.
class Listener final : public CaseObserver {
public:
    Listener(const Case& one, const Cast& cast, sweep::Report& report, bool is_root)
        : one_(one), cast_(cast), report_(report), is_root_(is_root) {}

    void begin(session::Session::Description description) override {
        if (!is_root_) return;
        record::CaseInfo& info = description.info;
        if (!one_.variant.empty()) info.key += "/" + one_.variant;
        info.settings = sweep::identity(one_.settings);
        info.repetition = one_.repetition;
        report_.current().keep_ranks(std::move(description.ranks));
        report_.current().begin(std::move(description));
        cast_.go_on();
    }
    void reference(std::uint64_t ns) override {
        if (is_root_) report_.current().reference(ns);
    }
    void iteration(const record::Sample& sample, const session::Verification& checked) override {
        if (!is_root_) return;
        report_.current().iteration(sample, checked, one_.push.cluster);
        cast_.go_on();
    }
    void nics(std::vector<record::NicRow> rows) override {
        if (is_root_) report_.current().nics(std::move(rows));
    }

private:
    const Case& one_;
    const Cast& cast_;
    sweep::Report& report_;
    bool is_root_;
};

/// Collective over all ranks launched. A case that fails is a result; a lost peer is an exception.
void play(const Agreement& all, mpi::Watchdog& watchdog, const Case& one, sweep::Report& report) {
    const bool is_root = all.world().rank() == 0;
    const PushArguments& a = one.push;
    ExitCode code = ExitCode::Ok;
    std::string reason;
    report.start();
    {
        const Cast cast(all.world(), watchdog, one.ranks(), all.timeout(), a.interval);
        if (const mpi::Communicator* players = cast.players()) {
            try {
                const auto topology = Topology::discover(*players, mpi::Deadline(a.push.timeout));
                const Agreement agreement(
                    *players, [&](int rank) { return topology.label(rank); }, a.push.timeout);
                Listener listener(one, cast, report, is_root);
                code =
                    run_case({agreement, watchdog, topology}, a, load_case(agreement, a), listener);
                if (is_root) reason = report.current().mismatch();
            } catch (const AgreedError& error) {
                code = error.code();
                reason = error.what();
            }
            if (is_root) cast.end();
        } else {
            cast.sit_out();
        }
    }
    all.run("results file", [&](const mpi::Deadline&) { report.end(one, code, reason); });
}

std::vector<bool> open_report(const Agreement& all, const Topology& topology,
                              const Arguments& arguments, sweep::Report& report) {
    std::vector<bool> ended;
    all.run("results file", [&](const mpi::Deadline&) {
        ended = report.open(fmt::format("sweep {}", fmt::join(arguments, " ")), topology);
    });
    mpi::Bytestring bytes;
    for (const bool has_ended : ended) bytes.push_back(std::byte{has_ended});
    all.world().broadcast(bytes, mpi::Deadline(all.timeout()), "results file");
    ended.clear();
    for (const std::byte one : bytes) ended.push_back(one != std::byte{0});
    return ended;
}

int sweep_agreed(const Agreement& first, const Topology& topology, mpi::Watchdog& watchdog,
                 const sweep::Options& options, const Arguments& arguments) {
    const mpi::Communicator& world = first.world();
    sweep::Job job;
    std::vector<Case> cases;
    std::uint64_t digest = 0;
    const Hosts hosts = find_hosts(world, topology, mpi::Deadline(first.timeout()));
    first.run("job", [&](const mpi::Deadline&) {
        cases = read_cases(options.path, job, world.size(), hosts);
        bool can_run = false;
        for (const Case& one : cases) {
            can_run = can_run || one.can_run();
            digest = mix(digest, hash_name(sweep::identity(one.settings) + one.rule));
        }
        if (options.is_dry || can_run) return;
        throw ConfigError(fmt::format("{}: no case can be: {}: {}", options.path,
                                      cases.front().name, cases.front().rule));
    });
    first.require_equal(digest, "the job", "job");
    if (options.is_dry) {
        if (world.rank() == 0) sweep::print_cases(cases, world.size(), options.as_json);
        return 0;
    }
    std::chrono::nanoseconds timeout = first.timeout();
    for (const Case& one : cases)
        if (one.can_run()) timeout = std::max(timeout, one.push.push.timeout);
    const Agreement all(
        world, [&](int rank) { return first.label(rank); }, timeout);

    sweep::Report report(options, job, cases, world.rank() == 0);
    ExitCode code = ExitCode::Ok;
    try {
        const std::vector<bool> ended = open_report(all, topology, arguments, report);
        for (std::size_t i = 0; i < cases.size(); ++i)
            if (cases[i].can_run() && !ended[i]) play(all, watchdog, cases[i], report);
        all.run("results file", [&](const mpi::Deadline&) { code = report.finish(); });
    } catch (const std::exception&) {
        report.abandon();
        throw;
    }
    return world.max(static_cast<int>(code), mpi::Deadline(timeout), "result");
}

int sweep_on(mpi::Communicator& world, mpi::Watchdog& watchdog, const sweep::Options& options,
             const std::optional<ConfigError>& bad, const Arguments& arguments) {
    constexpr std::chrono::seconds kTimeout(60);
    try {
        const Topology topology = Topology::discover(world, mpi::Deadline(kTimeout));
        const auto label = [topology](int rank) { return topology.label(rank); };
        world.set_labels(label);
        const Agreement agreement(world, label, kTimeout);
        agreement.run("arguments", [&](const mpi::Deadline&) {
            if (bad) throw ConfigError(bad->what());
            require_whole_world(world);
        });
        return sweep_agreed(agreement, topology, watchdog, options, arguments);
    } catch (const AgreedError& error) {
        if (world.rank() == 0) fmt::print(stderr, "weightlift: {}\n", error.what());
        return static_cast<int>(error.code());
    } catch (const Error& error) {
        abort_all(world, error.code(), error.what());
    } catch (const std::exception& error) {
        abort_all(world, ExitCode::Internal, fmt::format("internal error: {}", error.what()));
    }
}

}  // namespace

int run_sweep(const Arguments& arguments, int* argc, char*** argv) {
    sweep::Options options;
    std::optional<ConfigError> bad;
    try {
        if (parse_sweep(arguments, options) == Parsed::HelpShown) return 0;
        if (options.is_dry && mpi::launcher_world_size() <= 1) {
            sweep::Job job;
            const Hosts hosts =
                options.hosts ? hosts_like_this(*options.hosts, *options.ranks) : Hosts{};
            const auto cases = read_cases(options.path, job, options.ranks, hosts);
            sweep::print_cases(cases, options.ranks, options.as_json);
            return 0;
        }
    } catch (const ConfigError& error) {
        // Under a launcher one rank has to speak for all, which takes MPI.
        if (mpi::launcher_world_size() <= 1) throw;
        bad = error;
    }
    return run_on_ranks(argc, argv, std::chrono::seconds(60),
                        [&](mpi::Communicator& world, mpi::Watchdog& watchdog) {
                            return sweep_on(world, watchdog, options, bad, arguments);
                        });
}

}  // namespace weightlift::app
