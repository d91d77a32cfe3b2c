#include "netdevs.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "weightlift/base/error.hpp"

namespace weightlift::transport {
namespace {

int mtu_of(const std::string& name) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int any = fd >= 0 ? fd : socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0) return -1;
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    const int mtu = ioctl(any, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : -1;
    close(any);
    return mtu;
}

template <std::size_t N>
int ones(const std::array<std::uint8_t, N>& mask) {
    int bits = 0;
    for (const std::uint8_t byte : mask) bits += std::popcount(byte);
    return bits;
}

template <class Socket>
Socket read_address(const sockaddr* address) {
    Socket value{};
    std::memcpy(&value, address, sizeof value);
    return value;
}

void add_address(Netdev& netdev, const ifaddrs& at) {
    if (at.ifa_addr == nullptr) return;
    if (at.ifa_addr->sa_family == AF_PACKET) {
        const auto packet = read_address<sockaddr_ll>(at.ifa_addr);
        if (packet.sll_halen == 6)
            std::copy_n(packet.sll_addr, netdev.mac.size(), netdev.mac.begin());
    } else if (at.ifa_addr->sa_family == AF_INET) {
        Gid gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
        const auto address = read_address<sockaddr_in>(at.ifa_addr).sin_addr;
        std::memcpy(gid.data() + 12, &address, 4);
        int prefix = -1;
        if (at.ifa_netmask != nullptr)
            prefix = ones(std::bit_cast<std::array<std::uint8_t, 4>>(
                read_address<sockaddr_in>(at.ifa_netmask).sin_addr));
        netdev.addresses.emplace_back(gid, prefix);
    } else if (at.ifa_addr->sa_family == AF_INET6) {
        const auto address = read_address<sockaddr_in6>(at.ifa_addr).sin6_addr;
        int prefix = -1;
        if (at.ifa_netmask != nullptr)
            prefix = ones(std::bit_cast<Gid>(read_address<sockaddr_in6>(at.ifa_netmask).sin6_addr));
        netdev.addresses.emplace_back(std::bit_cast<Gid>(address), prefix);
    }
}

/// fe80:: and the MAC with its universal bit flipped and ff:fe in the middle.
Gid link_local_of(const std::array<std::uint8_t, 6>& mac) {
    return {0xfe,   0x80,   0,
            0,      0,      0,
            0,      0,      static_cast<std::uint8_t>(mac[0] ^ 2U),
            mac[1], mac[2], 0xff,
            0xfe,   mac[3], mac[4],
            mac[5]};
}

}  // namespace

std::vector<Netdev> list_netdevs() {
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0)
        throw Error(ExitCode::Internal, fmt::format("getifaddrs: {}", std::strerror(errno)));
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, freeifaddrs);
    std::vector<Netdev> netdevs;
    for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
        // An alias, "eth0:1", is an address of eth0.
        const std::string label = at->ifa_name;
        const std::string name = label.substr(0, label.find(':'));
        auto found = std::find_if(netdevs.begin(), netdevs.end(),
                                  [&](const Netdev& netdev) { return netdev.name == name; });
        if (found == netdevs.end())
            found = netdevs.insert(netdevs.end(),
                                   {name, if_nametoindex(name.c_str()), mtu_of(name), {}, {}});
        add_address(*found, *at);
    }
    return netdevs;
}

const Netdev* find_owner(GidEntry& entry, unsigned index, std::span<const Netdev> netdevs) {
    for (const Netdev& netdev : netdevs) {
        if (netdev.index != index || index == 0) continue;
        const auto held =
            std::find_if(netdev.addresses.begin(), netdev.addresses.end(),
                         [&](const auto& address) { return address.first == entry.gid; });
        if (held == netdev.addresses.end() &&
            (netdev.mac == decltype(netdev.mac){} || entry.gid != link_local_of(netdev.mac)))
            return nullptr;
        entry.netdev = netdev.name;
        if (held != netdev.addresses.end()) entry.prefix_length = held->second;
        return &netdev;
    }
    return nullptr;
}

}  // namespace weightlift::transport
