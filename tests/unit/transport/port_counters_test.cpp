#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {
namespace {

namespace fs = std::filesystem;

struct Row {
    const char* name;
    std::vector<std::pair<std::string, std::string>> files;
    std::optional<Bytes> sent, received;
    std::optional<std::uint64_t> sent_packets, received_packets;
};

TEST(PortCounters, are_read_in_the_way_of_each_driver) {
    const Row rows[] = {
        {"none", {}, {}, {}, {}, {}},
        {"mlx5: units of four bytes",
         {{"counters/port_xmit_data", "250\n"},
          {"counters/port_rcv_data", "1\n"},
          {"counters/port_xmit_packets", "3\n"},
          {"counters/port_rcv_packets", "4\n"},
          {"hw_counters/tx_bytes", "77\n"}},
         1000,
         4,
         3,
         4},
        {"no performance management",
         {{"counters/port_xmit_data", "N/A (no PMA)\n"}},
         {},
         {},
         {},
         {}},
        {"bnxt_re, efa",
         {{"hw_counters/tx_bytes", "11\n"},
          {"hw_counters/rx_bytes", "12\n"},
          {"hw_counters/tx_pkts", "13\n"},
          {"hw_counters/rx_pkts", "14\n"}},
         11,
         12,
         13,
         14},
        {"irdma: both address families",
         {{"hw_counters/ip4OutOctets", "100\n"},
          {"hw_counters/ip6OutOctets", "20\n"},
          {"hw_counters/ip4InOctets", "3\n"},
          {"hw_counters/ip4OutPkts", "2\n"},
          {"hw_counters/ip6OutPkts", "1\n"}},
         120,
         3,
         3,
         {}},
        {"rxe: packets only",
         {{"hw_counters/sent_pkts", "5\n"}, {"hw_counters/rcvd_pkts", "6\n"}},
         {},
         {},
         5,
         6},
        {"a counter that is zero is not absent", {{"hw_counters/sent_pkts", "0\n"}}, {}, {}, 0, {}},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        const fs::path root = fs::path(testing::TempDir()) / "weightlift_counters";
        fs::remove_all(root);
        for (const auto& [file, text] : row.files) {
            const fs::path path = root / "class/infiniband/nic0/ports/2" / file;
            fs::create_directories(path.parent_path());
            std::ofstream(path) << text;
        }
        const PortCounters counters = read_port_counters("nic0", 2, root.string());
        EXPECT_EQ(counters.sent, row.sent);
        EXPECT_EQ(counters.received, row.received);
        EXPECT_EQ(counters.sent_packets, row.sent_packets);
        EXPECT_EQ(counters.received_packets, row.received_packets);
        fs::remove_all(root);
    }
}

}  // namespace
}  // namespace weightlift::transport
