#include "scenario_table.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "weightlift/plan/statistics.hpp"

#include "catalog.hpp"
#include "cluster_file.hpp"
#include "options.hpp"
#include "prediction_text.hpp"

namespace weightlift::app {

namespace {

std::vector<std::filesystem::path> job_files(const std::string& folder) {
    std::error_code error;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
        if (entry.path().extension() == ".toml") files.push_back(entry.path());
    if (error) throw ConfigError(fmt::format("--scenarios {}: {}", folder, error.message()));
    if (files.empty()) throw ConfigError(fmt::format("--scenarios {}: no *.toml there", folder));
    std::sort(files.begin(), files.end());
    return files;
}

std::string published(const std::string& toml) {
    constexpr std::string_view kMark = "# published: ";
    std::istringstream lines(toml);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with(kMark)) return line.substr(kMark.size());
    return "";
}

std::string rows_of(const std::filesystem::path& file, const SimulationOptions& simulation) {
    SceneOptions options;
    std::string cluster_name;
    CLI::App app;
    add_scene_options(app, options);
    app.add_option("--cluster", cluster_name);
    (void)parse_arguments(app, {"--config", file.string()});
    if (cluster_name.empty())
        throw ConfigError(fmt::format("{}: cluster is missing", file.string()));

    const Scene scene = load_scene(options);
    const plan::Planner planner(scene.model, scene.trainer, scene.rollout);
    const sim::Fabric fabric(load_cluster(cluster_name), planner.trainers(), planner.world_size());
    const auto strategies = predict_strategies(planner, plan::gather_statistics(planner), fabric,
                                               trainer_stages(options), simulation);
    std::string name = fmt::format("{}, {}", file.stem().string(), cluster_name);
    std::string quoted = published(read_text(file.string()));
    std::string rows;
    for (const sim::StrategyPrediction& s : strategies) {
        const auto& ports = s.bound.busiest;
        rows += fmt::format(
            "| {} | {} | {} | {} | {} | {} | {} |\n", std::exchange(name, ""), s.name,
            human_bytes(s.bytes),
            ports.empty()
                ? "-"
                : fmt::format("{} ({})", name_of(ports[0], fabric), human_bytes(ports[0].bytes)),
            milliseconds(s.bound.seconds()), milliseconds(s.seconds), std::exchange(quoted, ""));
    }
    return rows;
}

}  // namespace

std::string scenario_table(const std::string& folder, const SimulationOptions& options) {
    std::string text =
        "| scenario, cluster | strategy | moved | busiest | floor | simulated | published |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const auto& file : job_files(folder)) text += rows_of(file, options);
    return text;
}

}  // namespace weightlift::app
