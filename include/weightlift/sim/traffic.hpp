// What moves between ranks, and through which ports of a cluster it goes. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weightlift/plan/statistics.hpp"
#include "weightlift/sim/cluster.hpp"

namespace weightlift::sim {

/// All that one rank sends to another in one step.
struct Flow {
    Rank src = 0, dst = 0;  ///< plan ranks
    Bytes bytes = 0;
    std::uint64_t messages = 0;
};

/// How rows that are not contiguous at both ends are sent: each by a message of its own, or packed
/// before and unpacked after, a message a copy (whose copying inside the ranks is not counted).
enum class Rows : std::uint8_t { Direct, Packed };

/// The flows of a `direct` plan: one per pair of ranks.
[[nodiscard]] std::vector<Flow> flows_of(const plan::PlanStatistics& statistics,
                                         Rows rows = Rows::Direct);

/// What bytes pass on their way. Memory, Uplink and Copy (a rank's own copying inside
/// a node) are not ports, but bound like ports.
enum class PortKind : std::uint8_t { Nic, NvLink, Memory, Uplink, Copy };

struct PortId {
    PortKind kind = PortKind::Nic;
    int node = 0;   ///< (Uplink) leaf switch
    int index = 0;  ///< port of the node, or (NVLink, Copy) plan rank
    bool is_send = true;
    friend bool operator==(const PortId&, const PortId&) = default;
};

/// "NIC 3 of node 0, send", "NVLink of rank 12, receive", "memory of node 0", "uplink of leaf 1",
/// "copying of rank 3".
[[nodiscard]] std::string to_string(const PortId& port);

/// The ports of a cluster, numbered, and the way from rank to rank.
class Fabric {
public:
    Fabric(const Cluster& cluster, Rank trainers, Rank ranks);

    struct Path {
        std::array<std::uint32_t, 4> ports{};
        std::uint32_t count = 0;
        [[nodiscard]] std::span<const std::uint32_t> all() const& { return {ports.data(), count}; }
        [[nodiscard]] std::span<const std::uint32_t> all() const&& =
            delete;  // it would look into what is gone
    };
    /// Empty from a rank to itself. In one NVLink domain by NVLink, else in one node by its memory
    /// where that has a rate, else by NICs, and between leaves by their uplinks.
    [[nodiscard]] Path path(Rank src, Rank dst) const;

    [[nodiscard]] std::uint32_t ports() const { return end_; }
    [[nodiscard]] PortId port(std::uint32_t number) const;
    /// Bytes per second.
    [[nodiscard]] double rate(std::uint32_t number) const;
    /// Messages per second; 0: no limit.
    [[nodiscard]] double message_rate(std::uint32_t number) const;
    [[nodiscard]] const Place& place(Rank rank) const {
        return places_[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] Rank ranks() const { return static_cast<Rank>(places_.size()); }
    [[nodiscard]] const Cluster& cluster() const { return cluster_; }

private:
    Cluster cluster_;
    std::vector<Place> places_;
    std::uint32_t nvlink_ = 0, memory_ = 0, uplink_ = 0, copy_ = 0, end_ = 0;  ///< first numbers
};

}  // namespace weightlift::sim
