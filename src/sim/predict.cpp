#include "weightlift/sim/predict.hpp"

#include <algorithm>
#include <map>

namespace weightlift::sim {

Prediction predict(std::span<const Flow> flows, const Fabric& fabric, std::size_t busiest) {
    struct Load {
        Bytes bytes = 0;
        std::uint64_t messages = 0, peers = 0;
    };
    std::vector<Load> loads(fabric.ports());
    Prediction prediction;
    for (const Flow& flow : flows) {
        const auto path = fabric.path(flow.src, flow.dst);
        for (const std::uint32_t number : path.all()) {
            Load& load = loads[number];
            load.bytes += flow.bytes;
            load.messages += flow.messages;
            ++load.peers;
            const PortId port = fabric.port(number);
            if (port.kind == PortKind::NvLink && port.is_send)
                prediction.nvlink_bytes += flow.bytes;
        }
    }
    std::vector<Port> ports;
    std::map<std::pair<int, int>, std::uint64_t> queue_pairs;
    for (std::uint32_t number = 0; number < loads.size(); ++number) {
        const Load& load = loads[number];
        if (load.peers == 0) continue;
        const PortId id = fabric.port(number);
        const double by_bytes = static_cast<double>(load.bytes) / fabric.rate(number);
        const double message_rate = fabric.message_rate(number);
        const double by_messages =
            message_rate > 0 ? static_cast<double>(load.messages) / message_rate : 0;
        prediction.bandwidth_seconds = std::max(prediction.bandwidth_seconds, by_bytes);
        prediction.message_seconds = std::max(prediction.message_seconds, by_messages);
        if (id.kind == PortKind::Nic) queue_pairs[{id.node, id.index}] += load.peers;
        ports.push_back({id, load.bytes, load.messages, std::max(by_bytes, by_messages)});
    }
    for (const auto& [port, peers] : queue_pairs)
        prediction.queue_pairs_per_port = std::max(prediction.queue_pairs_per_port, peers);
    std::stable_sort(ports.begin(), ports.end(),
                     [](const Port& a, const Port& b) { return a.seconds > b.seconds; });
    ports.resize(std::min(ports.size(), busiest));
    prediction.busiest = std::move(ports);
    return prediction;
}

Prediction predict(const plan::PlanStatistics& statistics, Rank trainers, const Cluster& cluster,
                   std::size_t busiest) {
    Rank ranks = std::max(trainers, static_cast<Rank>(statistics.sent.size()));
    for (const plan::PairTraffic& pair : statistics.pairs)
        ranks = std::max({ranks, pair.src + 1, pair.dst + 1});
    return predict(flows_of(statistics), Fabric(cluster, trainers, ranks), busiest);
}

}  // namespace weightlift::sim
