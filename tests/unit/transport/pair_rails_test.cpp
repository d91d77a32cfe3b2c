#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "nic_tables.hpp"

namespace weightlift::transport {
namespace {

Rail roce(const std::string& address, int prefix_length = -1, double rate = 50e9) {
    return {LinkLayer::Ethernet, gid_of(address), prefix_length, 0, 4096, rate, false};
}
Rail ib(const std::string& gid, std::uint16_t lid, double rate = 50e9) {
    return {LinkLayer::InfiniBand, gid_of(gid), -1, lid, 4096, rate, false};
}
Rail spare(Rail rail) {
    rail.is_spare = true;
    return rail;
}
Rail of_unknown_link() {
    Rail rail;
    rail.gid = gid_of("10.0.0.1");
    return rail;
}

using Pairs = std::vector<std::pair<int, int>>;
struct Row {
    const char* name;
    std::vector<Rail> source, destination;
    Pairs pairs;
};

TEST(PairRails, pairs_by_subnet_and_uses_every_rail_evenly) {
    const Row rows[] = {
        {"none", {}, {}, {}},
        {"no source", {}, {roce("10.0.0.1")}, {}},
        {"one subnet each, in another order",
         {roce("10.0.1.1", 24), roce("10.0.2.1", 24)},
         {roce("10.0.2.2", 24), roce("10.0.1.2", 24)},
         {{0, 1}, {1, 0}}},
        {"all in one subnet: each once",
         {roce("10.0.0.1", 16), roce("10.0.1.1", 16)},
         {roce("10.0.0.2", 16), roce("10.0.1.2", 16)},
         {{0, 0}, {1, 1}}},
        {"more sources than destinations",
         {roce("10.0.0.1", 24), roce("10.0.0.2", 24), roce("10.0.0.3", 24)},
         {roce("10.0.0.4", 24), roce("10.0.0.5", 24)},
         {{0, 0}, {1, 1}, {2, 0}}},
        {"fewer sources than destinations",
         {roce("10.0.0.1", 24)},
         {roce("10.0.0.4", 24), roce("10.0.0.5", 24)},
         {{0, 0}, {0, 1}}},
        {"a rail whose subnet the other end lacks stays out",
         {roce("10.0.1.1", 24), roce("10.0.9.1", 24)},
         {roce("10.0.1.2", 24)},
         {{0, 0}}},
        {"unknown IPv4 prefix counts as 24",
         {roce("10.0.1.1"), roce("10.0.2.1")},
         {roce("10.0.2.2"), roce("10.0.1.2")},
         {{0, 1}, {1, 0}}},
        {"a prefix known at one end counts for both",
         {roce("10.0.1.1", 16)},
         {roce("10.0.2.2"), roce("10.9.0.1")},
         {{0, 0}}},
        {"prefix that is no whole byte",
         {roce("10.0.0.1", 25)},
         {roce("10.0.0.200", 25), roce("10.0.0.100", 25)},
         {{0, 1}}},
        {"global IPv6 by 64 bits",
         {roce("fd00:1::1"), roce("fd00:2::1")},
         {roce("fd00:2::2"), roce("fd00:1::2")},
         {{0, 1}, {1, 0}}},
        {"link-local ones are all of one subnet",
         {roce("fe80::1"), roce("fe80::2")},
         {roce("fe80::3"), roce("fe80::4")},
         {{0, 0}, {1, 1}}},
        {"spare rails stay out where own ones meet",
         {roce("10.0.1.1", 24), spare(roce("10.0.2.1", 24))},
         {roce("10.0.1.2", 24), spare(roce("10.0.2.2", 24))},
         {{0, 0}}},
        {"dealt different rails: each has a spare one that meets the other's",
         {roce("10.0.1.1", 24), spare(roce("10.0.2.1", 24))},
         {spare(roce("10.0.1.2", 24)), roce("10.0.2.2", 24)},
         {{0, 0}, {1, 1}}},
        {"two spare ones do not meet",
         {roce("10.0.1.1", 24), spare(roce("10.0.2.1", 24)), spare(roce("10.0.3.1", 24))},
         {spare(roce("10.0.1.2", 24)), roce("10.0.2.2", 24), spare(roce("10.0.3.2", 24))},
         {{0, 0}, {1, 1}}},
        {"routed: rail i with rail i",
         {roce("10.0.1.1", 24), roce("10.0.2.1", 24)},
         {roce("10.1.1.1", 24), roce("10.1.2.1", 24)},
         {{0, 0}, {1, 1}}},
        {"IPv4 and IPv6 do not reach each other",
         {roce("10.0.0.1", 24)},
         {roce("fd00::1", 64)},
         {}},
        {"link-local reaches no routed address", {roce("fe80::1")}, {roce("fd00::1", 64)}, {}},
        {"InfiniBand by subnet prefix",
         {ib("fec0:0:0:1::1", 1), ib("fec0:0:0:2::1", 2)},
         {ib("fec0:0:0:2::2", 3), ib("fec0:0:0:1::2", 4)},
         {{0, 1}, {1, 0}}},
        {"InfiniBand through a router",
         {ib("fec0:0:0:1::1", 1)},
         {ib("fec0:0:0:2::2", 3)},
         {{0, 0}}},
        {"InfiniBand does not reach Ethernet", {ib("fe80::1", 1)}, {roce("fe80::2")}, {}},
        {"each link layer with its own",
         {ib("fe80::1", 1), roce("10.0.0.1", 24)},
         {roce("10.0.0.2", 24), ib("fe80::2", 2)},
         {{0, 1}, {1, 0}}},
        {"unknown link layers pair with nothing", {of_unknown_link()}, {of_unknown_link()}, {}},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        Pairs pairs;
        for (const RailPair& pair : pair_rails(row.source, row.destination))
            pairs.emplace_back(pair.source, pair.destination);
        EXPECT_EQ(pairs, row.pairs);
    }
}

TEST(PairRails, is_as_fast_as_its_slower_end) {
    const std::vector<Rail> source{roce("10.0.0.1", 24, 50e9)};
    const std::vector<Rail> destination{roce("10.0.0.2", 24, 25e9)};
    const std::vector<Rail> unknown{roce("10.0.0.3", 24, 0)};
    EXPECT_EQ(pair_rails(source, destination).at(0).rate, 25e9);
    EXPECT_EQ(pair_rails(destination, source).at(0).rate, 25e9);
    EXPECT_EQ(pair_rails(source, unknown).at(0).rate, 0);
}

}  // namespace
}  // namespace weightlift::transport
