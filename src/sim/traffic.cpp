#include "weightlift/sim/traffic.hpp"

#include <fmt/format.h>

namespace weightlift::sim {

std::vector<Flow> flows_of(const plan::PlanStatistics& statistics, Rows rows) {
    std::vector<Flow> flows;
    flows.reserve(statistics.pairs.size());
    for (const plan::PairTraffic& pair : statistics.pairs)
        flows.push_back(
            {pair.src, pair.dst, pair.bytes, rows == Rows::Direct ? pair.runs : pair.copies});
    return flows;
}

std::string to_string(const PortId& port) {
    const char* direction = port.is_send ? "send" : "receive";
    switch (port.kind) {
        case PortKind::Nic:
            return fmt::format("NIC {} of node {}, {}", port.index, port.node, direction);
        case PortKind::NvLink: return fmt::format("NVLink of rank {}, {}", port.index, direction);
        case PortKind::Memory: return fmt::format("memory of node {}", port.node);
        case PortKind::Uplink:
            return fmt::format("{}link of leaf {}", port.is_send ? "up" : "down", port.node);
        case PortKind::Copy: return fmt::format("copying of rank {}", port.index);
    }
    throw Error(ExitCode::Internal, "a port of no kind");
}

Fabric::Fabric(const Cluster& cluster, Rank trainers, Rank ranks) : cluster_(cluster) {
    int nodes = 0, leaves = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
        places_.push_back(place_of(rank, trainers, cluster));
        nodes = places_.back().node + 1;
        leaves = places_.back().leaf + 1;
    }
    const auto times = [](int a, int b) {
        return narrow<std::uint32_t>(std::int64_t{a} * b, "ports of a cluster");
    };
    // Two numbers a port: receive, then send.
    nvlink_ = times(nodes, 2 * cluster.ports_per_node);
    memory_ = nvlink_ + times(ranks, 2);
    uplink_ = memory_ + times(nodes, 1);
    copy_ = uplink_ + times(leaves, 2);
    end_ = copy_ + (cluster.copy_rate > 0 ? times(ranks, 1) : 0);
}

Fabric::Path Fabric::path(Rank src, Rank dst) const {
    Path path;
    if (src == dst) return path;
    const Place &from = place(src), &to = place(dst);
    const auto add = [&](std::uint32_t first, int index, bool is_send) {
        path.ports[path.count++] =
            first + 2 * static_cast<std::uint32_t>(index) + (is_send ? 1 : 0);
    };
    if (from.domain >= 0 && from.domain == to.domain) {
        add(nvlink_, src, true);
        add(nvlink_, dst, false);
        return path;
    }
    if (from.node == to.node && cluster_.memory_rate > 0) {
        path.ports[path.count++] = memory_ + static_cast<std::uint32_t>(from.node);
        if (cluster_.copy_rate > 0)
            path.ports[path.count++] = copy_ + static_cast<std::uint32_t>(src);
        return path;
    }
    add(0, from.node * cluster_.ports_per_node + from.port, true);
    add(0, to.node * cluster_.ports_per_node + to.port, false);
    if (from.leaf != to.leaf) {
        add(uplink_, from.leaf, true);
        add(uplink_, to.leaf, false);
    }
    return path;
}

PortId Fabric::port(std::uint32_t number) const {
    const bool is_send = [&] {
        const std::uint32_t first = number < nvlink_ ? 0 : number < memory_ ? nvlink_ : uplink_;
        return (number - first) % 2 == 1;
    }();
    if (number < nvlink_) {
        const int nic = static_cast<int>(number / 2);
        return {PortKind::Nic, nic / cluster_.ports_per_node, nic % cluster_.ports_per_node,
                is_send};
    }
    if (number < memory_) {
        const auto rank = static_cast<Rank>((number - nvlink_) / 2);
        return {PortKind::NvLink, place(rank).node, rank, is_send};
    }
    if (number < uplink_) return {PortKind::Memory, static_cast<int>(number - memory_), 0, true};
    if (number >= copy_) {
        const auto rank = static_cast<Rank>(number - copy_);
        return {PortKind::Copy, place(rank).node, rank, true};
    }
    return {PortKind::Uplink, static_cast<int>((number - uplink_) / 2), 0, is_send};
}

double Fabric::rate(std::uint32_t number) const {
    if (number < nvlink_) return cluster_.port_rate;
    if (number < memory_) return cluster_.nvlink_rate;
    if (number < uplink_) return cluster_.memory_rate;
    if (number >= copy_) return cluster_.copy_rate;
    return cluster_.port_rate * cluster_.ports_per_node * cluster_.leaf_nodes /
           cluster_.oversubscription;
}

double Fabric::message_rate(std::uint32_t number) const {
    return number < nvlink_ ? cluster_.port_message_rate : 0;
}

}  // namespace weightlift::sim
