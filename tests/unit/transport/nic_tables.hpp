// Attribute and GID tables of devices, as their drivers report them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {

/// Of "10.77.0.1" (IPv4-mapped) or "fe80::1".
inline Gid gid_of(const std::string& text) {
    Gid gid{};
    const std::string address = text.find(':') == std::string::npos ? "::ffff:" + text : text;
    EXPECT_EQ(inet_pton(AF_INET6, address.c_str(), gid.data()), 1) << text;
    return gid;
}

inline GidEntry entry(int index, GidType type, const std::string& address,
                      const std::string& netdev, int prefix_length = -1) {
    return {index, gid_of(address), type, netdev, prefix_length};
}

inline Nic nic_with(const std::string& name, NicPort port) {
    Nic nic;
    nic.name = name;
    nic.pci = "0000:17:00.0";
    nic.ports.push_back(std::move(port));
    return nic;
}

inline NicPort ethernet(std::vector<GidEntry> gids) {
    NicPort port;
    port.is_active = true;
    port.state = "ACTIVE";
    port.link = LinkLayer::Ethernet;
    port.mtu = 4096;
    port.gids = std::move(gids);
    return port;
}

inline NicPort infiniband(std::uint16_t lid, std::vector<GidEntry> gids) {
    NicPort port = ethernet(std::move(gids));
    port.link = LinkLayer::InfiniBand;
    port.lid = lid;
    return port;
}

/// mlx5 lists each address twice, as RoCEv1 and RoCEv2, the link-local one first.
inline Nic mlx5_roce() {
    return nic_with("mlx5_0", ethernet({
                                  entry(0, GidType::RoceV1, "fe80::ba3f:d2ff:fe10:a", "ens1", 64),
                                  entry(1, GidType::RoceV2, "fe80::ba3f:d2ff:fe10:a", "ens1", 64),
                                  entry(2, GidType::RoceV1, "10.77.0.1", "ens1", 24),
                                  entry(3, GidType::RoceV2, "10.77.0.1", "ens1", 24),
                                  entry(4, GidType::RoceV1, "fd00:77::1", "ens1", 64),
                                  entry(5, GidType::RoceV2, "fd00:77::1", "ens1", 64),
                              }));
}

/// A bond is one device, whose GIDs are those of the bond's interface and its VLANs.
inline Nic mlx5_bond() {
    return nic_with("mlx5_bond_0", ethernet({
                                       entry(0, GidType::RoceV1, "fe80::ba3f:d2ff:fe10:a", "bond0"),
                                       entry(1, GidType::RoceV2, "fe80::ba3f:d2ff:fe10:a", "bond0"),
                                       entry(2, GidType::RoceV1, "192.168.4.9", "bond0.104", 22),
                                       entry(3, GidType::RoceV2, "192.168.4.9", "bond0.104", 22),
                                   }));
}

inline Nic mlx5_infiniband() {
    return nic_with("mlx5_1",
                    infiniband(17, {entry(0, GidType::InfiniBand, "fe80::ba3f:d203:10:b", "")}));
}

/// irdma has RoCEv2 only, and one entry an address.
inline Nic irdma() {
    return nic_with("rocep24s0f0", ethernet({
                                       entry(0, GidType::RoceV2, "fe80::6efe:54ff:fe3d:1", "ens2"),
                                       entry(1, GidType::RoceV2, "10.1.2.3", "ens2", 16),
                                   }));
}

/// bnxt_re after an address was taken away: the table has holes.
inline Nic bnxt_re() {
    return nic_with("bnxt_re0", ethernet({
                                    entry(0, GidType::RoceV1, "fe80::5e6f:69ff:fe1:2", "ens3"),
                                    entry(1, GidType::RoceV2, "fe80::5e6f:69ff:fe1:2", "ens3"),
                                    entry(6, GidType::RoceV1, "10.9.0.7", "ens3", 24),
                                    entry(7, GidType::RoceV2, "10.9.0.7", "ens3", 24),
                                }));
}

/// EFA: one GID, of its own making; no LID, no link layer, no network interface.
inline Nic efa() {
    NicPort port = ethernet({entry(0, GidType::InfiniBand, "fe80::8ff:a1ff:fe2b:3", "")});
    port.link = LinkLayer::Unknown;
    Nic nic = nic_with("rdmap16s27", port);
    nic.has_rc = false;
    nic.limits.sge = 1;
    return nic;
}

inline Nic rxe(std::vector<GidEntry> gids) {
    Nic nic = nic_with("rxe0", ethernet(std::move(gids)));
    nic.pci.clear();
    return nic;
}

}  // namespace weightlift::transport
