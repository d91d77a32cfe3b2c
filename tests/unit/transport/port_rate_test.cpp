#include <gtest/gtest.h>

#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {
namespace {

struct Row {
    const char* name;
    LinkLayer link;
    unsigned width, speed;
    double gigabits;
};

TEST(PortRate, is_the_data_rate_of_each_speed) {
    constexpr auto kIb = LinkLayer::InfiniBand;
    constexpr auto kEthernet = LinkLayer::Ethernet;
    const Row rows[] = {
        {"SDR 4x", kIb, 2, 1, 8},
        {"DDR 4x", kIb, 2, 2, 16},
        {"QDR 4x", kIb, 2, 4, 32},
        {"FDR10 4x", kIb, 2, 8, 40},
        {"FDR 4x", kIb, 2, 16, 54.5454545},
        {"EDR 4x", kIb, 2, 32, 100},
        {"HDR 4x", kIb, 2, 64, 200},
        {"HDR 2x (split cable)", kIb, 16, 64, 100},
        {"NDR 4x", kIb, 2, 128, 400},
        {"XDR 4x", kIb, 2, 256, 800},
        {"QDR 12x", kIb, 8, 4, 96},
        {"10 GbE", kEthernet, 1, 4, 10},
        {"25 GbE", kEthernet, 1, 32, 25},
        {"100 GbE", kEthernet, 2, 32, 100},
        {"400 GbE", kEthernet, 2, 128, 400},
        {"800 GbE, eight lanes", kEthernet, 4, 128, 800},
        {"unknown width", kIb, 0, 32, 0},
        {"unknown speed", kIb, 2, 3, 0},
    };
    for (const Row& row : rows)
        EXPECT_NEAR(port_rate(row.link, row.width, row.speed) * 8 / 1e9, row.gigabits, 1e-6)
            << row.name;
}

}  // namespace
}  // namespace weightlift::transport
