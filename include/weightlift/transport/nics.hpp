// RDMA devices as values, and what is chosen among them. Reading the devices is one function; the
// choices are pure, so that tables of devices nobody here has can test them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weightlift/base/bytes.hpp"

namespace weightlift::transport {

enum class LinkLayer : std::uint8_t { InfiniBand, Ethernet, Unknown };
enum class GidType : std::uint8_t { InfiniBand, RoceV1, RoceV2 };
using Gid = std::array<std::uint8_t, 16>;  ///< network order

struct GidEntry {
    int index = 0;
    Gid gid{};
    GidType type = GidType::RoceV2;
    std::string netdev;      ///< empty: none, or one of another network namespace
    int prefix_length = -1;  ///< of that address on the netdev; -1: unknown
};

struct NicPort {
    int number = 1;
    bool is_active = false;
    std::string state;  ///< "ACTIVE", "DOWN", … as libibverbs says it
    LinkLayer link = LinkLayer::Unknown;
    std::uint16_t lid = 0;
    int mtu = 0;                 ///< active path MTU, bytes
    double rate = 0;             ///< data bytes per second; 0: unknown
    bool needs_grh = false;      ///< the port takes no packet without a global header
    int netdev_mtu = -1;         ///< bytes; -1: none or unknown
    std::vector<GidEntry> gids;  ///< only those that are not zero
};

struct NicLimits {
    int qp = 0, qp_wr = 0, sge = 0, cq = 0, cqe = 0, mr = 0;
    Bytes mr_size = 0;
};

struct Nic {
    std::string name;  ///< "mlx5_0"
    std::string pci;   ///< "0000:17:00.0"; empty: not a PCI device (Soft-RoCE)
    std::string firmware;
    std::string problem;  ///< why it could not be read; empty: read
    std::uint32_t vendor_id = 0, part_id = 0;
    int numa_node = -1;
    bool has_rc = true;     ///< reliable connections; EFA has none
    bool is_iwarp = false;  ///< connects by rdma_cm only
    NicLimits limits;
    std::vector<NicPort> ports;
};

/// All RDMA devices of this process's view, by name. Opens each and closes it again. Empty where
/// there is none, the kernel has no RDMA, or libibverbs finds no driver.
[[nodiscard]] std::vector<Nic> list_nics();

/// Why list_nics() is empty here, with the remedy: no /sys/class/infiniband, no /dev/infiniband, no
/// driver library, no permission. `root` goes before /sys and /dev (for tests).
[[nodiscard]] std::string why_no_nics(const std::string& root = "");

/// Data bytes per second of a port, from the codes of width and speed in ibv_port_attr (SDR … XDR);
/// 0 for codes not known.
[[nodiscard]] double port_rate(LinkLayer link, unsigned width, unsigned speed);

struct GidChoice {
    int index = -1;
    Gid gid{};
    bool uses_grh = true;
    std::string why;  ///< "RoCEv2, IPv4-mapped 10.77.0.1 on roce0"
};
/// Pure. RoCE: RoCEv2 with an IPv4-mapped address, then global IPv6, then link-local; never a zero
/// one, nor one without a netdev here; lowest index first. InfiniBand: by LID; with a global header
/// only where the port demands it or `crosses_subnets` says so. `requested` takes that index.
/// Throws ConfigError naming device, what was found, and the remedy.
[[nodiscard]] GidChoice choose_gid(const Nic& nic, const NicPort& port,
                                   std::optional<int> requested = std::nullopt,
                                   bool crosses_subnets = false);

/// Where one rank may attach.
struct Candidate {
    std::string nic;
    int port = 1;
    int distance = 0;  ///< to the rank's memory: smaller is nearer, equal is equal
};
/// Pure. The nearest candidates, dealt out to the `local_size` ranks of the node that see the same
/// nearest ones: with at least as many NICs as ranks each gets its share, otherwise one each in
/// turn. Indices into `candidates`, ascending; never empty where candidates are not.
[[nodiscard]] std::vector<std::size_t> deal_nics(std::span<const Candidate> candidates,
                                                 int local_rank, int local_size);

/// One attachment of a rank, as its peers need to know it.
struct Rail {
    LinkLayer link = LinkLayer::Unknown;
    Gid gid{};
    std::int32_t prefix_length = -1;  ///< RoCE: of the address; -1 unknown
    std::uint16_t lid = 0;
    std::int32_t mtu = 0;
    double rate = 0;        ///< bytes per second; 0: unknown
    bool is_spare = false;  ///< dealt to another rank of the node, but can be used
};
struct RailPair {
    int source = 0, destination = 0;  ///< indices into the two lists
    double rate = 0;                  ///< the smaller; 0: unknown
};
/// Pure, and equal on both ends. Rails of one subnet are paired (each rail as seldom as possible),
/// spare ones where no others are of one subnet: networks of two rails need not be connected. Where
/// no two at all are of one subnet, rail i goes with rail i (routed fabrics). Only rails of the
/// same link layer pair. Empty where nothing can.
[[nodiscard]] std::vector<RailPair> pair_rails(std::span<const Rail> source,
                                               std::span<const Rail> destination);

/// PCI distance of every NIC to this process's host memory (its NUMA binding), by hwloc: same NUMA
/// node 0, same package 1, same machine 2; NICs that are not on PCI all count as 0. Given a GPU's
/// PCI address: same switch 0, same host bridge 1, same NUMA node 2, same machine 3.
[[nodiscard]] std::vector<int> nic_distances(std::span<const Nic> nics,
                                             const std::string& gpu_pci = "");

/// A port's counters, read from sysfs; absent where the device has none.
struct PortCounters {
    std::optional<Bytes> sent, received;  ///< bytes (port_xmit_data × 4, or hw counters)
    std::optional<std::uint64_t> sent_packets, received_packets;
};
[[nodiscard]] PortCounters read_port_counters(const std::string& nic, int port,
                                              const std::string& sysfs = "/sys");

[[nodiscard]] std::string to_string(const Gid& gid);  ///< "10.77.0.1" where IPv4-mapped, else IPv6
[[nodiscard]] std::string_view to_string(GidType type);
[[nodiscard]] std::string_view to_string(LinkLayer link);

}  // namespace weightlift::transport
