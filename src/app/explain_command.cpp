// weightlift explain: where the time of an update went, without a guess.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "weightlift/plan/statistics.hpp"

#include "cluster_file.hpp"
#include "commands.hpp"
#include "explanation.hpp"
#include "options.hpp"
#include "prediction_text.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

int explain_results(const std::string& path, bool allow_partial, bool as_json) {
    const record::RunRecord run = record::read_results(path, allow_partial);
    std::vector<Explanation> all;
    std::string text;
    for (const record::CaseRecord& one : run.cases) {
        const auto explanation = explain(one);
        if (!text.empty()) text += '\n';
        text += explanation
                    ? explanation_text(*explanation)
                    : fmt::format("{}: no iteration was measured and right\n", one.info.key);
        all.push_back(explanation.value_or(Explanation{one.info.key, {}, 0}));
    }
    std::fputs((as_json ? explanations_json(all) : text).c_str(), stdout);
    return 0;
}

}  // namespace

int run_explain(const Arguments& arguments) {
    SceneOptions options;
    std::string path, cluster_name, observed, phases, strategy = "direct";
    bool allow_partial = false, as_json = false;
    SimulationOptions simulation;
    CLI::App app(
        "where the time of an update went: lower bound, strategy, named phases, unexplained rest",
        "weightlift explain");
    add_scene_options(app, options);
    app.add_option("file", path, "results file; or --model, layouts, --cluster and --observed");
    app.add_flag("--allow-partial", allow_partial, "read a run that was killed or still runs");
    app.add_flag("--json", as_json, "machine-readable");
    app.add_option("--cluster", cluster_name, "rates: shipped name or TOML file");
    app.add_option("--observed", observed, "time of the update (7.23, 7230ms)");
    app.add_option("--phase", phases, "parts of it that are known: pause=0.2,gather=3,post=884ms");
    app.add_option("--strategy", strategy,
                   "how the bytes travelled: direct, replica, broadcast, "
                   "relay")
        ->capture_default_str();
    add_simulation_options(app, simulation);
    if (parse_arguments(app, arguments) == Parsed::HelpShown) return 0;
    if (!path.empty()) {
        for (const char* flag : {"--model", "--trainer", "--rollout", "--cluster", "--observed",
                                 "--phase", "--strategy", "--order", "--rows", "--config"})
            if (app.count(flag) > 0)
                throw ConfigError(fmt::format("{}: a results file says all that is needed", flag));
        return explain_results(path, allow_partial, as_json);
    }
    if (observed.empty())
        throw ConfigError("--observed is missing (e.g. --observed 7.23), or a results file");
    if (cluster_name.empty()) throw ConfigError("--cluster is missing (e.g. h100-ib400)");
    const double seconds =
        std::chrono::duration<double>(parse_duration(observed, "--observed")).count();
    const auto known = parse_phases(phases, "--phase");
    const sim::Cluster cluster = load_cluster(cluster_name);

    const Scene scene = load_scene(options);
    for (const std::string& note : scene.notes) fmt::print(stderr, "weightlift: note: {}\n", note);
    const plan::Planner planner(scene.model, scene.trainer, scene.rollout);
    const sim::Fabric fabric(cluster, planner.trainers(), planner.world_size());
    const int stages = trainer_stages(options);
    const plan::PlanStatistics statistics = plan::gather_statistics(planner);
    const auto prediction = predict_strategy(
        flows_by(parse_strategy(strategy), planner, statistics, fabric, stages, simulation.rows),
        fabric, simulation.order);
    sim::Prediction floor = sim::predict(sim::flows_of(statistics, simulation.rows), fabric);
    if (prediction.bound.seconds() < floor.seconds()) floor = prediction.bound;
    Explanation explanation = explain(prediction, floor, fabric, seconds, known);
    explanation.title =
        fmt::format("{}, {} -> {} ranks, {} on {}\ntrainer {}\nrollout {}", scene.model.name(),
                    planner.trainers(), planner.rollouts(), strategy, cluster.name,
                    scene.trainer.description(), scene.rollout.description());
    std::fputs((as_json ? explanations_json({explanation}) : explanation_text(explanation)).c_str(),
               stdout);
    return 0;
}

}  // namespace weightlift::app
