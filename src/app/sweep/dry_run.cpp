#include "dry_run.hpp"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightlift/plan/planner.hpp"
#include "weightlift/plan/statistics.hpp"
#include "weightlift/sim/strategies.hpp"

#include "../cluster_file.hpp"
#include "../inputs.hpp"
#include "../prediction_text.hpp"
#include "../text.hpp"

namespace weightlift::app::sweep {

namespace {

struct Estimate {
    Bytes bytes = 0;  ///< that a push moves
    /// Where there is a cluster: the strategy's, or of all the fastest for `auto`.
    std::optional<double> seconds;
    std::string strategy;
};

Estimate estimate(const Case& one, std::optional<int> launched) {
    const PushArguments& a = one.push;
    const Scene scene = load_scene(a.scene, launched);
    plan::PlanOptions options;
    options.minimum_slice = a.push.minimum_slice;
    const plan::Planner planner(scene.model, scene.trainer, scene.rollout, options);
    const plan::PlanStatistics statistics = plan::gather_statistics(planner);
    Estimate out{statistics.bytes, {}, {}};
    if (a.cluster.empty()) return out;
    const sim::Fabric fabric(load_cluster(a.cluster), planner.trainers(), planner.world_size());
    const SimulationOptions simulation{
        .order = a.push.order == session::Order::Plan ? sim::Order::Plan : sim::Order::Rotated};
    for (const plan::Strategy strategy : kStrategies) {
        if (!a.has_auto_strategy && strategy != a.push.strategy) continue;
        const auto prediction = sim::predict_strategy(
            flows_by(strategy, planner, statistics, fabric, a.push.trainer_stages, simulation.rows),
            fabric, simulation.order);
        if (out.seconds && *out.seconds <= prediction.seconds) continue;
        out.seconds = prediction.seconds;
        out.strategy = prediction.name;
    }
    return out;
}

std::string text_of(const Estimate& e, bool is_chosen) {
    if (!e.seconds) return "N/A";
    return milliseconds(*e.seconds) + (is_chosen ? fmt::format(" ({})", e.strategy) : "");
}

/// Each combination once, with how often it is repeated.
std::uint64_t repetitions_of(const std::vector<Case>& cases) {
    return cases.empty() ? 0 : cases.back().repetition + 1;
}

}  // namespace

void print_cases(const std::vector<Case>& cases, std::optional<int> launched, bool as_json) {
    std::vector<std::vector<std::string>> rows{
        {"case", "ranks", "bytes", "weights/rank", "pushes", "predicted"}};
    nlohmann::ordered_json json{{"schema", "weightlift-sweep/1"},
                                {"repetitions", repetitions_of(cases)},
                                {"cases", nlohmann::ordered_json::array()}};
    double total = 0;
    bool is_known = true;
    std::size_t runs = 0, skipped = 0;
    Rank most_ranks = 0;
    std::string rules;
    for (const Case& one : cases) {
        one.can_run() ? ++runs : ++skipped;
        if (one.repetition > 0) continue;
        nlohmann::ordered_json item{{"name", one.name}, {"settings", identity(one.settings)}};
        if (one.can_run()) {
            const Estimate e = estimate(one, launched);
            most_ranks = std::max(most_ranks, one.ranks());
            is_known = is_known && e.seconds && one.pushes > 0;
            total += e.seconds.value_or(0) * static_cast<double>(one.pushes);
            const std::string pushes =
                one.pushes > 0 ? std::to_string(one.pushes) : "for its duration";
            rows.push_back({one.name, std::to_string(one.ranks()), human_bytes(e.bytes),
                            human_bytes(one.rank_bytes), pushes,
                            text_of(e, one.push.has_auto_strategy)});
            item.update(
                {{"ranks", one.ranks()},
                 {"bytes", e.bytes},
                 {"rank_bytes", one.rank_bytes},
                 {"pushes", one.pushes},
                 {"predicted_ns",
                  e.seconds ? nlohmann::ordered_json(static_cast<std::uint64_t>(*e.seconds * 1e9))
                            : nlohmann::ordered_json(nullptr)}});
            if (e.seconds) item["predicted_strategy"] = e.strategy;
        } else {
            rules += fmt::format("skipped {}: {}\n", one.name, one.rule);
            item["skipped"] = one.rule;
        }
        json["cases"].push_back(std::move(item));
    }
    if (as_json) {
        std::fputs((json.dump(2) + "\n").c_str(), stdout);
        return;
    }
    if (runs > 0) std::fputs(align(rows).c_str(), stdout);
    std::fputs(rules.c_str(), stdout);
    const auto repetitions = repetitions_of(cases);
    fmt::print("{} case{}{}: {} to run, {} skipped; at most {} ranks{}\n", cases.size(),
               cases.size() == 1 ? "" : "s",
               repetitions > 1
                   ? fmt::format(" ({} x {} repetitions)", cases.size() / repetitions, repetitions)
                   : "",
               runs, skipped, most_ranks, launched ? fmt::format(" of {}", *launched) : "");
    const std::string pushes =
        is_known ? "at least " + milliseconds(total * static_cast<double>(repetitions))
                 : "N/A (a case has no cluster, or a duration instead of iterations)";
    fmt::print("pushes alone, predicted: {}\n", pushes);
}

}  // namespace weightlift::app::sweep
