#include "netdevs.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "nic_tables.hpp"

namespace weightlift::transport {
namespace {

const std::vector<Netdev> kHere{
    {"lo", 1, 65536, {}, {{gid_of("127.0.0.1"), 8}}},
    {"eth0",
     2,
     1500,
     {0x52, 0x54, 0, 0x12, 0x34, 0x56},
     {{gid_of("10.77.0.1"), 24}, {gid_of("fd00:77::1"), 64}}},
};

struct Row {
    const char* name;
    const char* gid;
    unsigned index;
    const char* netdev;
    int prefix_length;
};

TEST(FindOwner, wants_the_address_as_well_as_the_number) {
    const Row rows[] = {
        {"IPv4", "10.77.0.1", 2, "eth0", 24},
        {"IPv6", "fd00:77::1", 2, "eth0", 64},
        {"made of the MAC, no address of the interface", "fe80::5054:ff:fe12:3456", 2, "eth0", -1},
        {"another namespace's number that is one here, too", "10.77.0.9", 2, "", -1},
        {"a number that is none here", "10.77.0.1", 7, "", -1},
        {"no interface at all", "10.77.0.1", 0, "", -1},
        {"an address of another interface", "10.77.0.1", 1, "", -1},
        {"no MAC to make a GID of", "fe80::200:ff:fe00:0", 1, "", -1},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        GidEntry entry;
        entry.gid = gid_of(row.gid);
        const Netdev* const owner = find_owner(entry, row.index, kHere);
        EXPECT_EQ(entry.netdev, row.netdev);
        EXPECT_EQ(entry.prefix_length, row.prefix_length);
        EXPECT_EQ(owner == nullptr ? "" : owner->name, row.netdev);
    }
}

TEST(ListNetdevs, finds_the_loopback_interface) {
    const auto netdevs = list_netdevs();
    const auto loopback = std::find_if(netdevs.begin(), netdevs.end(),
                                       [](const Netdev& netdev) { return netdev.name == "lo"; });
    ASSERT_NE(loopback, netdevs.end());
    EXPECT_GT(loopback->index, 0U);
    EXPECT_GT(loopback->mtu, 0);
    const bool has_address =
        std::any_of(loopback->addresses.begin(), loopback->addresses.end(),
                    [](const auto& a) { return a.first == gid_of("127.0.0.1") && a.second == 8; });
    EXPECT_TRUE(has_address);
}

}  // namespace
}  // namespace weightlift::transport
