#include "prediction_json.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace weightlift::app {

namespace {

using Json = nlohmann::ordered_json;

std::uint64_t ns(double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); }

Json to_json(const sim::StrategyPrediction& s, const sim::Fabric& fabric) {
    Json json{{"strategy", s.name}, {"bytes", s.bytes}, {"busiest_port", nullptr}};
    if (!s.bound.busiest.empty()) {
        const sim::Port& port = s.bound.busiest.front();
        json["busiest_port"] = {{"name", name_of(port, fabric)},
                                {"bytes", port.bytes},
                                {"messages", port.messages},
                                {"at_least_ns", ns(port.seconds)}};
    }
    json["floor_ns"] = ns(s.bound.seconds());
    json["floor_by_bytes_ns"] = ns(s.bound.bandwidth_seconds);
    json["floor_by_messages_ns"] = ns(s.bound.message_seconds);
    json["simulated_ns"] = ns(s.seconds);
    json["steps"] = Json::array();
    for (const auto& step : s.steps)
        json["steps"].push_back({{"name", step.name}, {"simulated_ns", ns(step.seconds)}});
    return json;
}

}  // namespace

std::string prediction_json(const Scene& scene, const plan::PlanStatistics& statistics,
                            const sim::Fabric& fabric, const SimulationOptions& options,
                            std::vector<sim::StrategyPrediction> strategies) {
    std::stable_sort(strategies.begin(), strategies.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    Json json{
        {"schema", "weightlift-prediction/1"},
        {"model",
         {{"name", scene.model.name()},
          {"parameters", scene.model.parameter_count()},
          {"bytes", scene.model.bytes()}}},
        {"trainer",
         {{"layout", scene.trainer.description()}, {"world_size", scene.trainer.world_size()}}},
        {"rollout",
         {{"layout", scene.rollout.description()},
          {"engines", scene.rollout.engine_begins().size()},
          {"world_size", scene.rollout.world_size()}}},
        {"digest", fmt::format("{:016x}", statistics.digest)},
        {"bytes", statistics.bytes},
        {"cluster", fabric.cluster().name},
        {"order", options.order == sim::Order::Rotated ? "rotated" : "plan"},
        {"rows", options.rows == sim::Rows::Packed ? "pack" : "direct"},
        {"strategies", Json::array()}};
    for (const sim::StrategyPrediction& s : strategies)
        json["strategies"].push_back(to_json(s, fabric));
    return json.dump(2) + '\n';
}

}  // namespace weightlift::app
