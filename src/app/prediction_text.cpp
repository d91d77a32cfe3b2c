#include "prediction_text.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/layout/parallel_config.hpp"

#include "one_tensor.hpp"
#include "text.hpp"

namespace weightlift::app {

void add_simulation_options(CLI::App& app, SimulationOptions& options) {
    app.add_option_function<std::string>(
        "--order",
        [&options](const std::string& name) {
            options.order = choose<sim::Order, 2>(
                name, "--order", {{{"plan", sim::Order::Plan}, {"rotated", sim::Order::Rotated}}});
        },
        "simulated order: rotated (default) or plan");
    app.add_option_function<std::string>(
        "--rows",
        [&options](const std::string& name) {
            options.rows = choose<sim::Rows, 2>(
                name, "--rows", {{{"direct", sim::Rows::Direct}, {"pack", sim::Rows::Packed}}});
        },
        "simulated sending of short rows: pack (default), or direct, a message each");
}

std::string milliseconds(double seconds) {
    return fmt::format("{} ms", show_ms(static_cast<std::uint64_t>(seconds * 1e9)));
}

std::string name_of(const sim::PortId& port, const sim::Fabric& fabric) {
    const std::string name = to_string(port);
    if (port.kind != sim::PortKind::Nic) return name;
    Rank first = -1, last = -1;
    for (Rank rank = 0; rank < fabric.ranks(); ++rank) {
        const sim::Place& place = fabric.place(rank);
        if (place.node != port.node || place.port != port.index) continue;
        if (first < 0) first = rank;
        last = rank;
    }
    const std::string ranks =
        first == last ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, last);
    return fmt::format("NIC {} of node {} ({}), {}", port.index, port.node, ranks,
                       port.is_send ? "send" : "receive");
}

std::string placement_text(const layout::Layout& rollout, const sim::Fabric& fabric) {
    constexpr std::size_t kShown = 4;
    const Rank trainers = fabric.ranks() - rollout.world_size();
    const auto range = [](int first, int last) {
        return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
    };
    const sim::Cluster& cluster = fabric.cluster();
    // Elsewhere a domain is a node.
    const bool has_domains = cluster.nvlink_domain_ranks > cluster.ranks_per_node;
    std::vector<std::vector<std::string>> rows{
        {fmt::format("placement on {}", cluster.name), "ranks", "nodes"}};
    if (has_domains) rows.front().emplace_back("NVLink domains");
    const auto add = [&](const std::string& who, Rank begin, Rank end) {
        const sim::Place &first = fabric.place(begin), &last = fabric.place(end - 1);
        rows.push_back({who, range(begin, end - 1), range(first.node, last.node)});
        if (has_domains) rows.back().push_back(range(first.domain, last.domain));
    };
    add("trainers", 0, trainers);
    const auto begins = rollout.engine_begins();
    for (std::size_t e = 0; e < std::min(begins.size(), kShown); ++e)
        add(fmt::format("engine {}", e), trainers + begins[e],
            trainers + (e + 1 < begins.size() ? begins[e + 1] : rollout.world_size()));
    if (begins.size() > kShown)
        add(fmt::format("engines {}",
                        range(static_cast<int>(kShown), static_cast<int>(begins.size()) - 1)),
            trainers + begins[kShown], fabric.ranks());
    std::string text = align(rows);
    const int shared = fabric.place(trainers - 1).node;
    if (shared == fabric.place(trainers).node)
        text += fmt::format("node {} has trainers and rollouts\n", shared);
    return text;
}

std::string prediction_text(const sim::Prediction& p, const sim::Fabric& fabric, Bytes bytes) {
    std::vector<std::vector<std::string>> rows{
        {fmt::format("busiest on {}", fabric.cluster().name), "bytes", "messages", "at least"}};
    for (const sim::Port& port : p.busiest)
        rows.push_back({name_of(port, fabric), human_bytes(port.bytes),
                        std::to_string(port.messages), milliseconds(port.seconds)});
    std::string text = align(rows);
    text += fmt::format("predicted time: at least {} ({} by bandwidth, {} by message rate)\n",
                        milliseconds(p.seconds()), milliseconds(p.bandwidth_seconds),
                        milliseconds(p.message_seconds));
    if (p.nvlink_bytes > 0)
        text += fmt::format("inside NVLink domains: {} of {}\n", human_bytes(p.nvlink_bytes),
                            human_bytes(bytes));
    return text;
}

plan::Strategy parse_strategy(const std::string& name) {
    if (const auto strategy = plan::find_strategy(name)) return *strategy;
    std::vector<std::string_view> names;
    for (const plan::Strategy strategy : kStrategies) names.push_back(plan::to_string(strategy));
    throw_not_one_of(name, "--strategy", names);
}

sim::StrategyFlows flows_by(plan::Strategy strategy, const plan::Planner& planner,
                            const plan::PlanStatistics& statistics, const sim::Fabric& fabric,
                            int stages, sim::Rows rows) {
    switch (strategy) {
        case plan::Strategy::Direct: return sim::direct_flows(statistics, rows);
        case plan::Strategy::Replica: return sim::replica_flows(planner, stages, rows);
        case plan::Strategy::Broadcast: return sim::broadcast_flows(planner, fabric, stages);
        case plan::Strategy::Relay: return sim::relay_flows(planner, fabric, rows);
    }
    throw Error(ExitCode::Internal, "a strategy without a name");
}

std::vector<sim::StrategyPrediction> predict_strategies(const plan::Planner& planner,
                                                        const plan::PlanStatistics& statistics,
                                                        const sim::Fabric& fabric, int stages,
                                                        const SimulationOptions& options) {
    std::vector<sim::StrategyPrediction> predictions;
    for (const plan::Strategy strategy : kStrategies)
        predictions.push_back(
            predict_strategy(flows_by(strategy, planner, statistics, fabric, stages, options.rows),
                             fabric, options.order));
    return predictions;
}

int trainer_stages(const SceneOptions& options) {
    if (options.trainer.empty() || options.trainer.starts_with('@') || is_one_tensor(options.model))
        return 1;
    return layout::parse_trainer(options.trainer).pp;
}

std::string choice_text(std::span<const sim::StrategyPrediction> sorted) {
    const auto& best = sorted[0];
    if (sorted.size() == 1)
        return fmt::format("{}, the only one: {} by the simulator", best.name,
                           milliseconds(best.seconds));
    return fmt::format("{}, the fastest of these by the simulator: {}, {:.2f} of {}'s time",
                       best.name, milliseconds(best.seconds), best.seconds / sorted[1].seconds,
                       sorted[1].name);
}

std::string ranking_text(std::vector<sim::StrategyPrediction> strategies,
                         const sim::Fabric& fabric) {
    std::stable_sort(strategies.begin(), strategies.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    std::vector<std::vector<std::string>> rows{
        {"strategy", "moved", "floor", "simulated", "x floor", "steps"}};
    std::string bounds;
    for (const sim::StrategyPrediction& s : strategies) {
        std::vector<std::string> steps;
        for (const auto& step : s.steps)
            steps.push_back(fmt::format("{} {}", step.name, milliseconds(step.seconds)));
        const double floor = s.bound.seconds();
        rows.push_back({s.name, human_bytes(s.bytes), milliseconds(floor), milliseconds(s.seconds),
                        floor > 0 ? fmt::format("{:.3f}", s.seconds / floor) : "-",
                        fmt::format("{}", fmt::join(steps, ", "))});
        if (!s.bound.busiest.empty()) {
            const sim::Port& port = s.bound.busiest.front();
            bounds += fmt::format("  {}: {}, {}\n", s.name, name_of(port, fabric),
                                  human_bytes(port.bytes));
        }
    }
    std::string text = align(rows);
    text += "bounded by\n" + bounds;
    text += fmt::format("auto: {}\n", choice_text(strategies));
    return text;
}

}  // namespace weightlift::app
