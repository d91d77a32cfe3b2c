// The network interfaces behind the GID tables: a process with fake devices sees their addresses
// and no others.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "world.hpp"

namespace {

struct Address {
    ifaddrs entry{};
    std::string name;
    sockaddr_in6 address{}, mask{};  // large enough for IPv4, too
};

bool is_ipv4(const weightlift::fake::Gid& gid) {
    return gid.bytes[10] == 0xff && gid.bytes[11] == 0xff;
}

/// Subnets of 24 bits (IPv4) and 64 bits (IPv6).
void fill(Address& address, const weightlift::fake::Gid& gid) {
    if (is_ipv4(gid)) {
        sockaddr_in value{}, mask{};
        value.sin_family = mask.sin_family = AF_INET;
        std::memcpy(&value.sin_addr, gid.bytes.data() + 12, 4);
        mask.sin_addr.s_addr = ::htonl(0xffffff00);
        std::memcpy(&address.address, &value, sizeof value);
        std::memcpy(&address.mask, &mask, sizeof mask);
    } else {
        address.address.sin6_family = address.mask.sin6_family = AF_INET6;
        std::memcpy(&address.address.sin6_addr, gid.bytes.data(), 16);
        std::memset(&address.mask.sin6_addr, 0xff, 8);
    }
}

struct List {
    std::deque<Address> addresses;
};

}  // namespace

extern "C" {

int getifaddrs(ifaddrs** first) noexcept {
    auto list = std::make_unique<List>();
    for (const auto& adapter : weightlift::fake::world().adapters)
        for (const auto& port : adapter->is.ports)
            for (const auto& gid : port.gids) {
                if (gid.interface == 0) continue;
                Address& address = list->addresses.emplace_back();
                address.name = "fake" + std::to_string(gid.interface);
                fill(address, gid);
            }
    ifaddrs* next = nullptr;
    for (auto at = list->addresses.rbegin(); at != list->addresses.rend(); ++at) {
        at->entry = {};
        at->entry.ifa_next = next;
        at->entry.ifa_name = at->name.data();
        at->entry.ifa_addr = reinterpret_cast<sockaddr*>(&at->address);
        at->entry.ifa_netmask = reinterpret_cast<sockaddr*>(&at->mask);
        at->entry.ifa_data = nullptr;
        next = &at->entry;
    }
    *first = next;
    // The first entry leads back to the list.
    if (next != nullptr) next->ifa_data = list.release();
    return 0;
}

void freeifaddrs(ifaddrs* first) noexcept {
    if (first != nullptr) delete static_cast<List*>(first->ifa_data);
}

unsigned if_nametoindex(const char* name) noexcept {
    constexpr std::string_view prefix = "fake";
    return std::string_view(name).starts_with(prefix)
               ? static_cast<unsigned>(std::stoul(name + prefix.size()))
               : 0;
}

}  // extern "C"
