// A cluster as a few numbers, and the lower bound of a plan's time on it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightlift/plan/statistics.hpp"

namespace weightlift::sim {

/// Rates are bytes per second in one direction. Both sides are placed node by node, trainers first,
/// rollouts from the next whole node on.
struct Cluster {
    std::string name;
    int ranks_per_node = 8;
    int ports_per_node = 8;  ///< NIC ports; rank r of a node uses port r * ports / ranks
    double port_rate = 0;
    double port_message_rate = 0;  ///< messages per second through one port; 0: unlimited
    int nvlink_domain_ranks = 0;   ///< consecutive ranks joined by NVLink; 0: none
    double nvlink_rate = 0;        ///< per rank
};

/// JSON object with the fields: name, ranks_per_node, ports_per_node, port_gbytes_per_s,
/// port_messages_per_s (optional), nvlink_domain_ranks, nvlink_gbytes_per_s (optional), note
/// (ignored). ConfigError naming field, value and rule.
[[nodiscard]] Cluster parse_cluster(std::string_view json_text);

enum class PortKind : std::uint8_t { Nic, NvLink };

struct Port {
    PortKind kind = PortKind::Nic;
    int node = 0, index = 0;  ///< port of the node, or (NVLink) rank
    bool is_send = true;
    Bytes bytes = 0;
    std::uint64_t messages = 0;
    double seconds = 0;  ///< max(bytes / rate, messages / message rate)
};

struct Prediction {
    std::vector<Port> busiest;     ///< the slowest ports first, at most as many as asked for
    double bandwidth_seconds = 0;  ///< max over ports of bytes / rate: the plan's floor
    double message_seconds = 0;    ///< max over ports of messages / message rate
    Bytes nvlink_bytes = 0;        ///< of the plan's bytes, those inside an NVLink domain
    std::uint64_t queue_pairs_per_port = 0;  ///< largest number of peers over one port, one QP each
    [[nodiscard]] double seconds() const {
        return bandwidth_seconds > message_seconds ? bandwidth_seconds : message_seconds;
    }
};

/// A lower bound of the time of a push of this plan. `trainers` of the plan's ranks are trainers.
[[nodiscard]] Prediction predict(const plan::PlanStatistics& statistics, Rank trainers,
                                 const Cluster& cluster, std::size_t busiest = 3);

}  // namespace weightlift::sim
