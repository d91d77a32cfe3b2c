#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "weightlift/sim/cluster.hpp"

#include "unit/layout/refused.hpp"

namespace weightlift::sim {
namespace {

/// A valid description with one more field, or another value of one (later fields win).
std::string with(const std::string& field) {
    return R"({"name": "c", "ranks_per_node": 4, "ports_per_node": 2, "port_gbytes_per_s": 50)" +
           (field.empty() ? "" : ", " + field) + "}";
}

TEST(ParseCluster, reads_every_field) {
    const Cluster c = parse_cluster(
        with(R"("port_messages_per_s": 1.5e7, "nvlink_domain_ranks": 72, "nvlink_gbytes_per_s": 450,
                "note": "any text")"));
    EXPECT_EQ(c.name, "c");
    EXPECT_EQ(c.ranks_per_node, 4);
    EXPECT_EQ(c.ports_per_node, 2);
    EXPECT_EQ(c.port_rate, 50e9);
    EXPECT_EQ(c.port_message_rate, 1.5e7);
    EXPECT_EQ(c.nvlink_domain_ranks, 72);
    EXPECT_EQ(c.nvlink_rate, 450e9);
}

TEST(ParseCluster, needs_neither_message_rate_nor_nvlink) {
    const Cluster c = parse_cluster(with(""));
    EXPECT_EQ(c.port_message_rate, 0);
    EXPECT_EQ(c.nvlink_domain_ranks, 0);
}

struct Refused {
    const char* name;
    std::string text;
    const char* message;
};
std::ostream& operator<<(std::ostream& out, const Refused& row) { return out << row.name; }

class ParseClusterRefuses : public testing::TestWithParam<Refused> {};

TEST_P(ParseClusterRefuses, naming_field_value_and_rule) {
    EXPECT_REFUSAL(parse_cluster(GetParam().text).name, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ParseClusterRefuses,
    testing::Values(
        Refused{"no_json", "ranks_per_node: 8", "not a JSON object"},
        Refused{"empty", "", "not a JSON object"}, Refused{"a_list", "[1, 2]", "not a JSON object"},
        Refused{"no_name", R"({"ranks_per_node": 8, "ports_per_node": 8, "port_gbytes_per_s": 50})",
                "field name is missing"},
        Refused{"name_is_a_number", R"({"name": 3})", "field name is missing or not a string"},
        Refused{"no_ranks", R"({"name": "c"})", "field ranks_per_node is missing"},
        Refused{"no_rate", R"({"name": "c", "ranks_per_node": 8, "ports_per_node": 8})",
                "field port_gbytes_per_s is missing"},
        Refused{"no_ranks_on_a_node", with(R"("ranks_per_node": 0)"),
                "ranks_per_node is 0, but must be a number of at least 1"},
        Refused{"no_ports", with(R"("ports_per_node": 0)"), "ports_per_node is 0"},
        Refused{"half_a_port", with(R"("ports_per_node": 1.5)"),
                "ports_per_node is 1.5, but must be a whole number"},
        Refused{"more_ranks_than_an_int", with(R"("ranks_per_node": 1e12)"), "ranks_per_node"},
        Refused{"beyond_any_integer", with(R"("nvlink_domain_ranks": 1e300)"),
                "nvlink_domain_ranks"},
        Refused{"rate_of_zero", with(R"("port_gbytes_per_s": 0)"), "port_gbytes_per_s is 0"},
        Refused{"negative_rate", with(R"("port_gbytes_per_s": -50)"), "port_gbytes_per_s is -50"},
        Refused{"rate_as_text", with(R"("port_gbytes_per_s": "50")"),
                R"(port_gbytes_per_s is "50", but must be a number)"},
        Refused{"negative_messages", with(R"("port_messages_per_s": -1)"),
                "port_messages_per_s is -1"},
        Refused{"nvlink_without_rate", with(R"("nvlink_domain_ranks": 8)"),
                "field nvlink_gbytes_per_s is missing"},
        Refused{"misspelt_field", with(R"("port_message_per_s": 1e7)"),
                "port_message_per_s is not a field"}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace weightlift::sim
