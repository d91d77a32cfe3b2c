// weightlift plan: what would be pushed, from a config.json and two layouts, on any laptop.
#include <algorithm>
#include <bit>
#include <cstdio>

#include <fmt/format.h>

#include "weightlift/layout/layout_file.hpp"
#include "weightlift/plan/copy.hpp"
#include "weightlift/plan/queue_pairs.hpp"
#include "weightlift/plan/statistics.hpp"

#include "cluster_file.hpp"
#include "commands.hpp"
#include "options.hpp"
#include "plan_json.hpp"
#include "prediction_json.hpp"
#include "prediction_text.hpp"
#include "scenario_table.hpp"
#include "spread.hpp"
#include "step_plan.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string percent(double part, double whole) {
    return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

std::string size_name(std::size_t bucket) {
    const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return fmt::format("{} {}", 1U << (bucket % 10), units[bucket / 10]);
}

void print_scene(const Scene& scene) {
    const auto engines = scene.rollout.engine_begins().size();
    fmt::print("model    {}: {} parameters, {}\n", scene.model.name(),
               scene.model.parameter_count(), human_bytes(scene.model.bytes()));
    fmt::print("trainer  {}: {} ranks\n", scene.trainer.description(), scene.trainer.world_size());
    fmt::print("rollout  {}: {} ranks in {} engine{}\n", scene.rollout.description(),
               scene.rollout.world_size(), engines, engines == 1 ? "" : "s");
}

/// As the cluster places the ranks; without one all are on one node.
std::vector<int> nodes_of(const std::optional<sim::Cluster>& cluster, Rank trainers, Rank ranks) {
    std::vector<int> nodes(static_cast<std::size_t>(ranks));
    if (!cluster) return nodes;
    const sim::Fabric fabric(*cluster, trainers, ranks);
    for (Rank rank = 0; rank < ranks; ++rank)
        nodes[static_cast<std::size_t>(rank)] = fabric.place(rank).node;
    return nodes;
}

void print_steps(const StepPlanInputs& in, bool is_json) {
    const StepTotals totals = gather_totals(in.planner, in.stepper);
    if (is_json) {
        Bytes bytes = 0;
        for (Rank rank = in.planner.trainers(); rank < in.planner.world_size(); ++rank)
            for (const plan::Transfer& t : in.planner.received_by(rank)) bytes += t.bytes();
        write_step_plan_json(stdout, in, totals, bytes);
        return;
    }
    print_scene(in.scene);
    std::fputs(step_plan_text(in, totals).c_str(), stdout);
}

void print_ranks(const Scene& scene, const plan::PlanStatistics& stats) {
    const Rank trainers = scene.trainer.world_size();
    const auto number = [](std::uint64_t n) { return std::to_string(n); };
    Spread held[2], moved[2], peers[2];
    for (std::size_t r = 0; r < stats.sent.size(); ++r) {
        const bool is_rollout = static_cast<Rank>(r) >= trainers;
        const layout::Layout& layout = is_rollout ? scene.rollout : scene.trainer;
        held[is_rollout].add(layout.bytes_of(static_cast<Rank>(r) - (is_rollout ? trainers : 0)));
        moved[is_rollout].add(is_rollout ? stats.received[r] : stats.sent[r]);
        peers[is_rollout].add(is_rollout ? stats.fan_in[r] : stats.fan_out[r]);
    }
    const Rank out = stats.busiest_sender(), in = stats.busiest_receiver();
    Rows rows{
        {"per rank: min / mean / max", "weights in memory", "bytes moved", "peers", "busiest"},
        {"trainer (sends)", show(held[0], human_bytes), show(moved[0], human_bytes),
         show(peers[0], number), fmt::format("rank {}", out)},
        {"rollout (receives)", show(held[1], human_bytes), show(moved[1], human_bytes),
         show(peers[1], number), fmt::format("rank {}", in)}};
    std::fputs((align(rows) + "\n").c_str(), stdout);
}

void print_sizes(const plan::PlanStatistics& stats) {
    Rows rows{{"contiguous runs of", "count", "bytes", "share of bytes"}};
    for (std::size_t b = 0; b < stats.sizes.runs.size(); ++b)
        if (stats.sizes.runs[b] > 0)
            rows.push_back({fmt::format("{} …", size_name(b)), std::to_string(stats.sizes.runs[b]),
                            human_bytes(stats.sizes.bytes[b]),
                            percent(static_cast<double>(stats.sizes.bytes[b]),
                                    static_cast<double>(stats.bytes))});
    std::fputs((align(rows) + "\n").c_str(), stdout);
}

void print_queue_pairs(const plan::PlanStatistics& stats) {
    const plan::QueuePairs most = plan::count_queue_pairs(stats);
    fmt::print(
        "queue pairs (verbs, one NIC a rank): at most {} on one NIC, {} of queues (rank {})\n",
        most.pairs, human_bytes(most.bytes), most.rank);
    if (most.pairs > plan::kManyQueuePairs)
        fmt::print(stderr,
                   "weightlift: warning: {} queue pairs on one NIC are more than its cache is "
                   "likely to hold ({}); --qps 1 or more NICs a rank\n",
                   most.pairs, plan::kManyQueuePairs);
}

}  // namespace

int run_plan(const Arguments& arguments) {
    SceneOptions options;
    std::string format = "text", emit, cluster_name, minimum_slice = "256KiB";
    std::string strategy_name = "direct", staging_limit = "2GiB";
    bool is_merged = false, is_simulated = false;
    std::string scenarios;
    SimulationOptions simulation;
    CLI::App app("what would be pushed: bytes per rank and pair, message sizes, lower bound",
                 "weightlift plan");
    add_scene_options(app, options);
    app.add_option("--cluster", cluster_name, "cluster description: shipped name or TOML file");
    app.add_option("--format", format, "text; json: the plan, or with --simulate the predictions")
        ->capture_default_str();
    app.add_flag("--merged", is_merged, "with --format json: copies as they are executed");
    app.add_option("--emit-layout", emit,
                   "print the trainer's or the rollout's layout file instead");
    app.add_flag("--simulate", is_simulated,
                 "with --cluster: simulates the push by each strategy, and names what bounds it");
    add_simulation_options(app, simulation);
    app.add_option("--scenarios", scenarios,
                   "with --simulate: a table of all job files of this folder instead");
    app.add_option("--min-slice", minimum_slice, "smallest slice a region is cut into")
        ->capture_default_str();
    app.add_option("--strategy", strategy_name, "direct, replica, broadcast, relay")
        ->capture_default_str();
    app.add_option("--staging-limit", staging_limit, "most bytes of staging a rank")
        ->capture_default_str();
    if (parse_arguments(app, arguments) == Parsed::HelpShown) return 0;
    if (format != "text" && format != "json")
        throw ConfigError(fmt::format("--format {}: not text or json", format));
    if (is_merged && format != "json") throw ConfigError("--merged needs --format json");
    if (!emit.empty() && emit != "trainer" && emit != "rollout")
        throw ConfigError(fmt::format("--emit-layout {}: not trainer or rollout", emit));
    const plan::Strategy strategy = parse_strategy(strategy_name);
    const bool has_steps = strategy != plan::Strategy::Direct;
    if (has_steps && (is_merged || is_simulated || !emit.empty()))
        throw ConfigError(fmt::format(
            "--strategy {} excludes --merged, --simulate (of all strategies) and --emit-layout",
            strategy_name));
    if (!scenarios.empty() && !is_simulated) throw ConfigError("--scenarios needs --simulate");
    if (is_simulated && (is_merged || !emit.empty()))
        throw ConfigError("--simulate excludes --merged and --emit-layout");
    if (!scenarios.empty() && format != "text")
        throw ConfigError("--scenarios excludes --format json: it is a table for people");
    if (is_simulated && scenarios.empty() && cluster_name.empty())
        throw ConfigError("--simulate needs --cluster, which knows the rates");
    if (!scenarios.empty()) {
        std::fputs(scenario_table(scenarios, simulation).c_str(), stdout);
        return 0;
    }
    plan::PlanOptions plan_options;
    plan_options.minimum_slice = parse_bytes(minimum_slice, "--min-slice");
    std::optional<sim::Cluster> cluster;
    if (!cluster_name.empty()) cluster = load_cluster(cluster_name);

    const Scene scene = load_scene(options);
    for (const std::string& note : scene.notes) fmt::print(stderr, "weightlift: note: {}\n", note);
    if (!emit.empty()) {
        std::fputs(
            layout::emit_layout(emit == "trainer" ? scene.trainer : scene.rollout, scene.model)
                .c_str(),
            stdout);
        return 0;
    }
    if (has_steps) {
        const Rank trainers = scene.trainer.world_size();
        const Rank ranks = trainers + scene.rollout.world_size();
        plan_options.node = nodes_of(cluster, trainers, ranks);
        const plan::Planner planner(scene.model, scene.trainer, scene.rollout, plan_options);
        plan::StepOptions step_options;
        step_options.staging_limit = parse_bytes(staging_limit, "--staging-limit");
        step_options.node = plan_options.node;
        step_options.stages = trainer_stages(options);
        const plan::StepPlanner stepper(planner, strategy, step_options);
        print_steps({scene, planner, stepper, strategy, step_options.staging_limit},
                    format == "json");
        return 0;
    }
    const plan::Planner planner(scene.model, scene.trainer, scene.rollout, plan_options);
    const plan::PlanStatistics stats = plan::gather_statistics(planner);
    if (format == "json" && !is_simulated) {
        write_plan_json(stdout, scene, planner, stats.digest, stats.bytes,
                        is_merged ? PlanView::Merged : PlanView::Transfers);
        return 0;
    }
    if (format == "json") {
        const sim::Fabric fabric(*cluster, planner.trainers(), planner.world_size());
        const auto strategies =
            predict_strategies(planner, stats, fabric, trainer_stages(options), simulation);
        std::fputs(prediction_json(scene, stats, fabric, simulation, strategies).c_str(), stdout);
        return 0;
    }
    print_scene(scene);
    fmt::print(
        "plan     {:016x}: {} in {} transfers, {} copies after merging, {} pairs of ranks\n\n",
        stats.digest, human_bytes(stats.bytes), stats.transfers, stats.copies, stats.pairs.size());
    print_ranks(scene, stats);
    print_sizes(stats);
    print_queue_pairs(stats);
    if (cluster) {
        const std::vector<sim::Flow> flows = sim::flows_of(stats);
        const sim::Fabric fabric(*cluster, planner.trainers(), planner.world_size());
        const sim::Prediction prediction = sim::predict(flows, fabric);
        std::fputs((placement_text(scene.rollout, fabric) + "\n").c_str(), stdout);
        std::fputs(prediction_text(prediction, fabric, stats.bytes).c_str(), stdout);
        if (is_simulated)
            std::fputs(("\n" + ranking_text(predict_strategies(planner, stats, fabric,
                                                               trainer_stages(options), simulation),
                                            fabric))
                           .c_str(),
                       stdout);
    } else {
        fmt::print(
            "busiest port: {} (rank {} sends, rank {} receives {}); --cluster NAME predicts a "
            "time\n",
            human_bytes(stats.port_bytes()), stats.busiest_sender(), stats.busiest_receiver(),
            human_bytes(stats.received[static_cast<std::size_t>(stats.busiest_receiver())]));
    }
    return 0;
}

}  // namespace weightlift::app
