// A cluster as a few numbers, and where the ranks of a plan stand in it. Pure.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "weightlift/base/bytes.hpp"

namespace weightlift::sim {

/// Whether rollouts begin on a node of their own or directly after the trainers.
enum class Placement { Separate, Packed };

/// Rates are bytes per second in one direction. Ranks fill nodes in order, trainers first.
struct Cluster {
    std::string name;
    Placement placement = Placement::Separate;
    int ranks_per_node = 8;
    int ports_per_node = 8;  ///< NIC ports; rank r of a node uses port r * ports / ranks
    double port_rate = 0;
    double port_message_rate = 0;  ///< messages per second through one port; 0: unlimited
    double latency = 0;            ///< seconds from the last byte's departure to its arrival
    int nvlink_domain_ranks = 0;   ///< consecutive ranks joined by NVLink; 0: none
    double nvlink_rate = 0;        ///< per rank
    double memory_rate = 0;        ///< of copies inside a node, all together; 0: they take its NICs
    double copy_rate = 0;          ///< of those that one rank makes; 0: no limit of its own
    int leaf_nodes = 0;            ///< nodes below one leaf switch; 0: the network is no limit
    double oversubscription = 1;   ///< a leaf's port rates together over the rate of its uplinks
    /// A port that more sources write to at once than `incast_writers` (0: any number) loses rate:
    /// with n writers it keeps share + (1 - share) * incast_writers / n of it.
    int incast_writers = 0;
    double incast_rate_share = 1;
};

/// Of name and text of each field, in any order. Needed: name, ranks_per_node, ports_per_node,
/// port_gbytes_per_s; with nvlink_domain_ranks also nvlink_gbytes_per_s. Others: placement,
/// port_messages_per_s, latency_us, memory_gbytes_per_s,
/// copy_gbytes_per_s (with memory_gbytes_per_s), leaf_nodes, oversubscription,
/// incast_writers, incast_rate_share. ConfigError naming field, value and rule.
[[nodiscard]] Cluster make_cluster(std::span<const std::pair<std::string, std::string>> fields);

/// Where a rank stands. Slots count over nodes, whole ones.
struct Place {
    int node = 0, port = 0;
    int domain = -1;  ///< of NVLink; -1: none
    int leaf = -1;    ///< switch; -1: none
};
/// `trainers` of the plan's ranks are trainers.
[[nodiscard]] Place place_of(Rank rank, Rank trainers, const Cluster& cluster);

}  // namespace weightlift::sim
