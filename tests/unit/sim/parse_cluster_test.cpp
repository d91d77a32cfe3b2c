#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/sim/cluster.hpp"

#include "unit/layout/refused.hpp"

namespace weightlift::sim {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

/// A valid description with one more field, or another value of one.
Fields with(const std::string& name, const std::string& text) {
    Fields fields{{"name", "c"},
                  {"ranks_per_node", "4"},
                  {"ports_per_node", "2"},
                  {"port_gbytes_per_s", "50"}};
    for (auto& [field, value] : fields)
        if (field == name) {
            value = text;
            return fields;
        }
    fields.emplace_back(name, text);
    return fields;
}

Fields without(const std::string& name) {
    Fields fields = with("name", "c");
    std::erase_if(fields, [&](const auto& field) { return field.first == name; });
    return fields;
}

TEST(MakeCluster, reads_every_field) {
    const Cluster c = make_cluster(Fields{
        {"incast_rate_share", "0.8"},
        {"incast_writers", "8"},
        {"oversubscription", "1.5"},
        {"leaf_nodes", "16"},
        {"memory_gbytes_per_s", "100"},
        {"copy_gbytes_per_s", "12"},
        {"nvlink_gbytes_per_s", "450"},
        {"nvlink_domain_ranks", "72"},
        {"latency_us", "3"},
        {"port_messages_per_s", "1.5e7"},
        {"port_gbytes_per_s", "50"},
        {"ports_per_node", "2"},
        {"ranks_per_node", "4"},
        {"placement", "packed"},
        {"name", "c"},
    });
    EXPECT_EQ(c.name, "c");
    EXPECT_EQ(c.placement, Placement::Packed);
    EXPECT_EQ(c.ranks_per_node, 4);
    EXPECT_EQ(c.ports_per_node, 2);
    EXPECT_EQ(c.port_rate, 50e9);
    EXPECT_EQ(c.port_message_rate, 1.5e7);
    EXPECT_DOUBLE_EQ(c.latency, 3e-6);
    EXPECT_EQ(c.nvlink_domain_ranks, 72);
    EXPECT_EQ(c.nvlink_rate, 450e9);
    EXPECT_EQ(c.memory_rate, 100e9);
    EXPECT_EQ(c.copy_rate, 12e9);
    EXPECT_EQ(c.leaf_nodes, 16);
    EXPECT_EQ(c.oversubscription, 1.5);
    EXPECT_EQ(c.incast_writers, 8);
    EXPECT_EQ(c.incast_rate_share, 0.8);
}

TEST(MakeCluster, limits_nothing_by_what_is_not_said) {
    const Cluster c = make_cluster(with("name", "c"));
    EXPECT_EQ(c.placement, Placement::Separate);
    EXPECT_EQ(c.port_message_rate, 0);
    EXPECT_EQ(c.latency, 0);
    EXPECT_EQ(c.nvlink_domain_ranks, 0);
    EXPECT_EQ(c.memory_rate, 0);
    EXPECT_EQ(c.leaf_nodes, 0);
    EXPECT_EQ(c.incast_writers, 0);
}

struct Refused {
    const char* name;
    Fields fields;
    const char* message;
};
std::ostream& operator<<(std::ostream& out, const Refused& row) { return out << row.name; }

class MakeClusterRefuses : public testing::TestWithParam<Refused> {};

TEST_P(MakeClusterRefuses, naming_field_value_and_rule) {
    EXPECT_REFUSAL(make_cluster(GetParam().fields).name, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, MakeClusterRefuses,
    testing::Values(
        Refused{"nothing", {}, "field name is missing"},
        Refused{"copies_without_memory", with("copy_gbytes_per_s", "12"),
                "copy_gbytes_per_s needs memory_gbytes_per_s"},
        Refused{"no_ranks", without("ranks_per_node"), "field ranks_per_node is missing"},
        Refused{"no_rate", without("port_gbytes_per_s"), "field port_gbytes_per_s is missing"},
        Refused{"no_ranks_on_a_node", with("ranks_per_node", "0"),
                "ranks_per_node is 0, but must be a number of at least 1"},
        Refused{"no_ports", with("ports_per_node", "0"), "ports_per_node is 0"},
        Refused{"half_a_port", with("ports_per_node", "1.5"),
                "ports_per_node is 1.5, but must be a whole number"},
        Refused{"more_ranks_than_an_int", with("ranks_per_node", "1e12"), "ranks_per_node"},
        Refused{"beyond_any_integer", with("nvlink_domain_ranks", "1e300"), "nvlink_domain_ranks"},
        Refused{"rate_of_zero", with("port_gbytes_per_s", "0"), "port_gbytes_per_s is 0"},
        Refused{"negative_rate", with("port_gbytes_per_s", "-50"), "port_gbytes_per_s is -50"},
        Refused{"infinite_rate", with("port_gbytes_per_s", "inf"), "port_gbytes_per_s is inf"},
        Refused{"rate_with_a_unit", with("port_gbytes_per_s", "50 GB"),
                "port_gbytes_per_s is 50 GB, but must be a number"},
        Refused{"negative_messages", with("port_messages_per_s", "-1"),
                "port_messages_per_s is -1"},
        Refused{"nvlink_without_rate", with("nvlink_domain_ranks", "8"),
                "field nvlink_gbytes_per_s is missing"},
        Refused{"placement_of_its_own", with("placement", "random"),
                "placement is random, but must be separate or packed"},
        Refused{"more_than_all_of_the_rate", with("incast_rate_share", "1.1"),
                "incast_rate_share is 1.1, but must be at most 1"},
        Refused{"undersubscription", with("oversubscription", "0.5"), "oversubscription is 0.5"},
        Refused{"misspelt_field", with("port_message_per_s", "1e7"),
                "port_message_per_s is not a field"}),
    testing::PrintToStringParamName());

TEST(PlaceOf, packs_rollouts_behind_trainers_where_told) {
    Cluster c = make_cluster(with("placement", "packed"));
    c.nvlink_domain_ranks = 2;
    c.leaf_nodes = 1;
    const Place packed = place_of(3, 3, c);
    EXPECT_EQ(packed.node, 0);
    EXPECT_EQ(packed.port, 1);
    EXPECT_EQ(packed.domain, 1);
    c.placement = Placement::Separate;
    const Place separate = place_of(3, 3, c);
    EXPECT_EQ(separate.node, 1);
    EXPECT_EQ(separate.port, 0);
    EXPECT_EQ(separate.domain, 2);
    EXPECT_EQ(separate.leaf, 1);
}

}  // namespace
}  // namespace weightlift::sim
