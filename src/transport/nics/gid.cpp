#include "gid.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "weightlift/base/error.hpp"

namespace weightlift::transport {
namespace {

constexpr Gid kV4Mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr Gid kLoopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

/// "mlx5_0 port 1".
std::string name_of(const Nic& nic, const NicPort& port) {
    return fmt::format("{} port {}", nic.name, port.number);
}

void require_usable(const Nic& nic, const NicPort& port) {
    if (!nic.problem.empty()) throw ConfigError(fmt::format("{}: {}", nic.name, nic.problem));
    if (!nic.has_rc)
        throw ConfigError(fmt::format(
            "{} has no reliable connections (RC), as Amazon's EFA has none: take --transport mpi "
            "(an MPI built on libfabric drives it), or another device by --nic",
            nic.name));
    if (nic.is_iwarp)
        throw ConfigError(
            fmt::format("{} is in iWARP mode, which has no queue pairs to connect by exchange: "
                        "switch it to RoCE (irdma: module parameter roce_ena=1), take another "
                        "device by --nic, or --transport mpi",
                        nic.name));
    if (!port.is_active)
        throw ConfigError(fmt::format(
            "{} is {}, not ACTIVE: check its cable and switch (InfiniBand: the subnet manager), "
            "or take another device by --nic",
            name_of(nic, port), port.state.empty() ? "in an unknown state" : port.state));
}

const GidEntry* lowest(std::span<const GidEntry> gids, auto&& fits) {
    const GidEntry* best = nullptr;
    for (const GidEntry& entry : gids)
        if (fits(entry) && (best == nullptr || entry.index < best->index)) best = &entry;
    return best;
}

/// "10.77.0.1 on roce0".
std::string at(const GidEntry& entry) {
    return entry.netdev.empty() ? to_string(entry.gid)
                                : fmt::format("{} on {}", to_string(entry.gid), entry.netdev);
}

std::string describe(const GidEntry& entry) {
    const std::string kind = address_of(entry.gid) == Address::Ipv4   ? "IPv4-mapped"
                             : address_of(entry.gid) == Address::Ipv6 ? "global IPv6"
                                                                      : "link-local";
    return fmt::format("{}, {} {}", to_string(entry.type), kind, at(entry));
}

/// What there is instead of a usable entry, and what to do about it.
std::string nothing_usable(const NicPort& port) {
    int v1 = 0, foreign = 0;
    for (const GidEntry& entry : port.gids) {
        if (address_of(entry.gid) == Address::None) continue;
        if (entry.netdev.empty())
            ++foreign;
        else if (entry.type == GidType::RoceV1)
            ++v1;
    }
    if (foreign > 0 && v1 == 0)
        return fmt::format(
            "{} GID{}, but of no network interface of this network namespace: run in the host's "
            "network (docker --network=host), or give the container an interface of this device",
            foreign, foreign == 1 ? "" : "s");
    if (v1 > 0)
        return fmt::format(
            "{} RoCEv1 GID{} and no RoCEv2: enable RoCEv2 on the device, or give --gid-index", v1,
            v1 == 1 ? "" : "s");
    return "no GID: bring its network interface up and give it an IP address";
}

GidChoice choose_roce(const Nic& nic, const NicPort& port) {
    for (const Address wanted : {Address::Ipv4, Address::Ipv6, Address::LinkLocal}) {
        const GidEntry* const found = lowest(port.gids, [wanted](const GidEntry& entry) {
            return entry.type == GidType::RoceV2 && !entry.netdev.empty() &&
                   address_of(entry.gid) == wanted;
        });
        if (found != nullptr) return {found->index, found->gid, true, describe(*found)};
    }
    throw ConfigError(fmt::format("{} (RoCE) has {}", name_of(nic, port), nothing_usable(port)));
}

GidChoice choose_infiniband(const Nic& nic, const NicPort& port, bool crosses_subnets) {
    const bool needs_grh = port.needs_grh || crosses_subnets;
    const GidEntry* const found = lowest(
        port.gids, [](const GidEntry& entry) { return address_of(entry.gid) != Address::None; });
    if (needs_grh && found == nullptr)
        throw ConfigError(fmt::format(
            "{} (InfiniBand) needs a global header{}, but has no GID: check the subnet manager",
            name_of(nic, port), port.needs_grh ? "" : " to another subnet"));
    if (!port.needs_grh && port.lid == 0)
        throw ConfigError(
            fmt::format("{} (InfiniBand) has LID 0: no subnet manager has configured it; start "
                        "one (opensm)",
                        name_of(nic, port)));
    GidChoice choice;
    choice.uses_grh = needs_grh;
    choice.why = fmt::format("InfiniBand, LID {}", port.lid);
    if (found != nullptr) {
        choice.index = found->index;
        choice.gid = found->gid;
    }
    if (needs_grh)
        choice.why += fmt::format(", global header {}: {}",
                                  port.needs_grh ? "required by the port" : "to another subnet",
                                  to_string(found->gid));
    return choice;
}

GidChoice take_requested(const Nic& nic, const NicPort& port, int requested) {
    const GidEntry* const found =
        lowest(port.gids, [requested](const GidEntry& entry) { return entry.index == requested; });
    const auto refuse = [&](const char* why) -> ConfigError {
        std::string usable;
        for (const GidEntry& entry : port.gids)
            if (address_of(entry.gid) != Address::None &&
                (port.link == LinkLayer::InfiniBand || !entry.netdev.empty()))
                usable += fmt::format("{}{} ({}, {})", usable.empty() ? "" : ", ", entry.index,
                                      to_string(entry.type), at(entry));
        return ConfigError(fmt::format("--gid-index {}: {} {}; usable: {}", requested,
                                       name_of(nic, port), why, usable.empty() ? "none" : usable));
    };
    if (found == nullptr || address_of(found->gid) == Address::None)
        throw refuse("has no GID at that index");
    if (port.link == LinkLayer::InfiniBand)
        return {found->index, found->gid, true,
                fmt::format("as asked: InfiniBand, global header {}", to_string(found->gid))};
    if (found->netdev.empty())
        throw refuse("has there a GID of no network interface of this network namespace");
    return {found->index, found->gid, true, fmt::format("as asked: {}", describe(*found))};
}

}  // namespace

Address address_of(const Gid& gid) {
    if (gid == Gid{} || gid == kLoopback || gid[0] == 0xff) return Address::None;
    if (std::equal(gid.begin(), gid.begin() + 12, kV4Mapped.begin())) {
        const bool is_reachable = gid[12] != 0 && gid[12] != 127 && gid[12] < 224;
        return is_reachable ? Address::Ipv4 : Address::None;
    }
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80 ? Address::LinkLocal : Address::Ipv6;
}

GidChoice choose_gid(const Nic& nic, const NicPort& port, std::optional<int> requested,
                     bool crosses_subnets) {
    require_usable(nic, port);
    if (port.link == LinkLayer::Unknown)
        throw ConfigError(
            fmt::format("{} is neither InfiniBand nor Ethernet: take another device by --nic",
                        name_of(nic, port)));
    if (requested) return take_requested(nic, port, *requested);
    return port.link == LinkLayer::Ethernet ? choose_roce(nic, port)
                                            : choose_infiniband(nic, port, crosses_subnets);
}

std::string to_string(const Gid& gid) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (std::equal(gid.begin(), gid.begin() + 12, kV4Mapped.begin()))
        inet_ntop(AF_INET, gid.data() + 12, text.data(), text.size());
    else
        inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
    return text.data();
}

std::string_view to_string(GidType type) {
    switch (type) {
        case GidType::InfiniBand: return "InfiniBand";
        case GidType::RoceV1: return "RoCEv1";
        case GidType::RoceV2: return "RoCEv2";
    }
    return "?";
}

std::string_view to_string(LinkLayer link) {
    switch (link) {
        case LinkLayer::InfiniBand: return "InfiniBand";
        case LinkLayer::Ethernet: return "Ethernet";
        case LinkLayer::Unknown: return "unknown";
    }
    return "?";
}

}  // namespace weightlift::transport
