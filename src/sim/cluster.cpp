#include "weightlift/sim/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace weightlift::sim {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kFields[] = {"name",
                                        "ranks_per_node",
                                        "ports_per_node",
                                        "port_gbytes_per_s",
                                        "port_messages_per_s",
                                        "nvlink_domain_ranks",
                                        "nvlink_gbytes_per_s",
                                        "note"};

double number(const Json& json, const char* field, double low, std::optional<double> fallback) {
    const auto at = json.find(field);
    if (at == json.end()) {
        if (fallback) return *fallback;
        throw ConfigError(fmt::format("cluster: field {} is missing", field));
    }
    if (!at->is_number() || at->get<double>() < low)
        throw ConfigError(fmt::format("cluster: {} is {}, but must be a number of at least {}",
                                      field, at->dump(), low));
    return at->get<double>();
}

int count(const Json& json, const char* field, int low, std::optional<int> fallback) {
    const double value = number(json, field, low, fallback);
    if (value > std::numeric_limits<int>::max() || value != std::floor(value))
        throw ConfigError(fmt::format(
            "cluster: {} is {}, but must be a whole number, and fit in 32 bits", field, value));
    return static_cast<int>(value);
}

}  // namespace

Cluster parse_cluster(std::string_view text) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) throw ConfigError("cluster: the description is not a JSON object");
    // A misspelt optional field would silently leave its term out of the bound.
    for (const auto& [field, value] : json.items())
        if (std::find(std::begin(kFields), std::end(kFields), field) == std::end(kFields))
            throw ConfigError(fmt::format("cluster: {} is not a field; fields are {}", field,
                                          fmt::join(kFields, ", ")));
    Cluster cluster;
    const auto name = json.find("name");
    if (name == json.end() || !name->is_string())
        throw ConfigError("cluster: field name is missing or not a string");
    cluster.name = *name;
    cluster.ranks_per_node = count(json, "ranks_per_node", 1, std::nullopt);
    cluster.ports_per_node = count(json, "ports_per_node", 1, std::nullopt);
    cluster.port_rate = 1e9 * number(json, "port_gbytes_per_s", 1e-6, std::nullopt);
    cluster.port_message_rate = number(json, "port_messages_per_s", 0, 0);
    cluster.nvlink_domain_ranks = count(json, "nvlink_domain_ranks", 0, 0);
    if (cluster.nvlink_domain_ranks > 0)
        cluster.nvlink_rate = 1e9 * number(json, "nvlink_gbytes_per_s", 1e-6, std::nullopt);
    return cluster;
}

Prediction predict(const plan::PlanStatistics& statistics, Rank trainers, const Cluster& cluster,
                   std::size_t busiest) {
    struct Place {
        int node, port, domain, rank;
    };
    const auto per_node = static_cast<Rank>(cluster.ranks_per_node);
    // Slot numbers count over whole nodes: rollouts begin on a node of their own.
    const auto place_of = [&](Rank rank) {
        const Rank first_rollout = (trainers + per_node - 1) / per_node * per_node;
        const Rank slot = rank < trainers ? rank : first_rollout + rank - trainers;
        return Place{slot / per_node, slot % per_node * cluster.ports_per_node / per_node,
                     cluster.nvlink_domain_ranks > 0 ? slot / cluster.nvlink_domain_ranks : -1,
                     rank};
    };
    struct Load {
        Bytes bytes = 0;
        std::uint64_t messages = 0, peers = 0;
    };
    std::map<std::tuple<PortKind, int, int, bool>, Load> loads;
    Prediction prediction;
    for (const plan::PairTraffic& pair : statistics.pairs) {
        const Place src = place_of(pair.src), dst = place_of(pair.dst);
        const bool is_nvlink = src.domain >= 0 && src.domain == dst.domain;
        if (is_nvlink) prediction.nvlink_bytes += pair.bytes;
        const PortKind kind = is_nvlink ? PortKind::NvLink : PortKind::Nic;
        for (const bool is_send : {true, false}) {
            const Place& end = is_send ? src : dst;
            Load& load = loads[{kind, end.node, is_nvlink ? end.rank : end.port, is_send}];
            load.bytes += pair.bytes;
            load.messages += pair.runs;
            ++load.peers;
        }
    }
    std::vector<Port> ports;
    std::map<std::pair<int, int>, std::uint64_t> queue_pairs;
    for (const auto& [key, load] : loads) {
        const auto& [kind, node, index, is_send] = key;
        const bool is_nic = kind == PortKind::Nic;
        const double by_bytes =
            static_cast<double>(load.bytes) / (is_nic ? cluster.port_rate : cluster.nvlink_rate);
        const double by_messages =
            is_nic && cluster.port_message_rate > 0
                ? static_cast<double>(load.messages) / cluster.port_message_rate
                : 0;
        prediction.bandwidth_seconds = std::max(prediction.bandwidth_seconds, by_bytes);
        prediction.message_seconds = std::max(prediction.message_seconds, by_messages);
        if (is_nic) queue_pairs[{node, index}] += load.peers;
        ports.push_back({kind, node, index, is_send, load.bytes, load.messages,
                         std::max(by_bytes, by_messages)});
    }
    for (const auto& [port, peers] : queue_pairs)
        prediction.queue_pairs_per_port = std::max(prediction.queue_pairs_per_port, peers);
    std::stable_sort(ports.begin(), ports.end(),
                     [](const Port& a, const Port& b) { return a.seconds > b.seconds; });
    ports.resize(std::min(ports.size(), busiest));
    prediction.busiest = std::move(ports);
    return prediction;
}

}  // namespace weightlift::sim
