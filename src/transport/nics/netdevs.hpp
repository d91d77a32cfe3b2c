// Network interfaces of this process's network namespace, as far as GIDs are made of them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {

struct Netdev {
    std::string name;
    unsigned index = 0;
    int mtu = -1;                                ///< bytes; -1: unknown
    std::array<std::uint8_t, 6> mac{};           ///< zero: none
    std::vector<std::pair<Gid, int>> addresses;  ///< as GIDs, with prefix length (IPv4: of 32)
};

[[nodiscard]] std::vector<Netdev> list_netdevs();

/// Fills netdev and prefix_length of an entry whose netdev the kernel numbers `index`. Numbers of
/// another namespace may be one of ours by chance, so that the interface must also bear the GID: as
/// an address, or as the link-local one made of its MAC. Returns the interface, or nullptr.
const Netdev* find_owner(GidEntry& entry, unsigned index, std::span<const Netdev> netdevs);

}  // namespace weightlift::transport
