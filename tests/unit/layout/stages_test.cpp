#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"

namespace weightlift::layout {
namespace {

using Sizes = std::vector<std::uint64_t>;

struct Row {
    const char* name;
    std::uint64_t layers;
    const char* config;
    std::vector<std::vector<Interval>> expected;  ///< [stage][chunk]
};

const Row kRows[] = {
    {"one stage", 4, "tp=1", {{{0, 4}}}},
    {"even", 6, "pp=3", {{{0, 2}}, {{2, 4}}, {{4, 6}}}},
    {"last given",
     94,
     "pp=4,last-pipeline-layers=22",
     {{{0, 24}}, {{24, 48}}, {{48, 72}}, {{72, 94}}}},
    {"GLM-4.5-Air",
     46,
     "pp=4,last-pipeline-layers=10",
     {{{0, 12}}, {{12, 24}}, {{24, 36}}, {{36, 46}}}},
    {"first given", 7, "pp=3,first-pipeline-layers=3", {{{0, 3}}, {{3, 5}}, {{5, 7}}}},
    {"first and last",
     8,
     "pp=3,first-pipeline-layers=1,last-pipeline-layers=2",
     {{{0, 1}}, {{1, 6}}, {{6, 8}}}},
    {"two stages, both given",
     5,
     "pp=2,first-pipeline-layers=3,last-pipeline-layers=2",
     {{{0, 3}}, {{3, 5}}}},
    {"embedding counts", 7, "pp=2,account-for-embedding=1", {{{0, 3}}, {{3, 7}}}},
    {"loss counts", 7, "pp=2,account-for-loss=1", {{{0, 4}}, {{4, 7}}}},
    {"both count", 6, "pp=2,account-for-embedding=1,account-for-loss=1", {{{0, 3}}, {{3, 6}}}},
    {"an embedding stage alone",
     3,
     "pp=4,account-for-embedding=1",
     {{{0, 0}}, {{0, 1}}, {{1, 2}}, {{2, 3}}}},
    {"virtual", 8, "pp=2,vpp=2", {{{0, 2}, {4, 6}}, {{2, 4}, {6, 8}}}},
    {"virtual, one layer each",
     8,
     "pp=2,vpp=4",
     {{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}}}},
    {"virtual, both count",
     6,
     "pp=2,vpp=2,account-for-embedding=1,account-for-loss=1",
     {{{0, 1}, {3, 5}}, {{1, 3}, {5, 6}}}},
    {"virtual, uneven",
     14,
     "pp=3,vpp=2,first-pipeline-layers=2,last-pipeline-layers=4",
     {{{0, 1}, {7, 8}}, {{1, 5}, {8, 12}}, {{5, 7}, {12, 14}}}},
};

TEST(MegatronStages, follow_the_rules_of_even_uneven_and_virtual_pipelines) {
    for (const Row& row : kRows)
        EXPECT_EQ(megatron_stage_layers(row.layers, parse_trainer(row.config)), row.expected)
            << row.name;
}

TEST(MegatronStages, of_published_configurations) {
    const auto sizes = [](std::uint64_t layers, const char* config) {
        Sizes result;
        for (const auto& stage : megatron_stage_layers(layers, parse_trainer(config)))
            result.push_back(stage.front().size());
        return result;
    };
    EXPECT_EQ(sizes(61, "pp=8,last-pipeline-layers=5"), (Sizes{8, 8, 8, 8, 8, 8, 8, 5}));
    EXPECT_EQ(sizes(78, "pp=8,last-pipeline-layers=8"), (Sizes{10, 10, 10, 10, 10, 10, 10, 8}));
}

TEST(MegatronStages, refuse_what_does_not_add_up) {
    const struct {
        const char* name;
        std::uint64_t layers;
        const char* config;
        const char* message;
    } rows[] = {
        {"uneven", 46, "pp=4", "pp=4 does not divide 46 layers"},
        {"counted", 46, "pp=4,account-for-loss=1", "pp=4 does not divide 47 layers"},
        {"middle", 61, "pp=8,last-pipeline-layers=6",
         "leave 55 of 61 layers, which 7 other stages do not divide"},
        {"too many", 8, "pp=3,last-pipeline-layers=9",
         "last-pipeline-layers=9 leave 0 of 8 layers to 2 other"},
        {"nothing left", 8, "pp=3,last-pipeline-layers=8", "leave 0 of 8 layers to 2 other stages"},
        {"too few", 8, "pp=2,first-pipeline-layers=3,last-pipeline-layers=4",
         "leave 1 of 8 layers to 0 other stages"},
        {"no room for both", 8, "pp=1,first-pipeline-layers=4,last-pipeline-layers=4",
         "at least 2, not pp=1"},
        {"uneven and counted", 8, "pp=2,first-pipeline-layers=4,account-for-loss=1",
         "cannot be combined"},
        {"vpp without pp", 8, "vpp=2", "vpp=2 needs pp of at least 2"},
        {"vpp", 6, "pp=2,vpp=2", "vpp=2 does not divide 3 layers per stage"},
        {"vpp of first", 12, "pp=2,vpp=2,first-pipeline-layers=5",
         "vpp=2 does not divide 5 layers of the first"},
        {"vpp of last", 12, "pp=2,vpp=2,last-pipeline-layers=5",
         "vpp=2 does not divide 5 layers of the last"},
        {"vpp of middle", 11, "pp=3,vpp=2,last-pipeline-layers=2,first-pipeline-layers=4",
         "vpp=2 does not divide 5 layers of the other"},
    };
    for (const auto& row : rows) {
        SCOPED_TRACE(row.name);
        try {
            (void)megatron_stage_layers(row.layers, parse_trainer(row.config));
            ADD_FAILURE() << "not refused";
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
                << error.what();
        }
    }
}

TEST(SglangStages, give_the_remainder_to_the_last_ones) {
    EXPECT_EQ(sglang_stage_layers(61, 4),
              (std::vector<Interval>{{0, 15}, {15, 30}, {30, 45}, {45, 61}}));
    EXPECT_EQ(sglang_stage_layers(11, 4), (std::vector<Interval>{{0, 2}, {2, 5}, {5, 8}, {8, 11}}));
    EXPECT_EQ(sglang_stage_layers(3, 1), (std::vector<Interval>{{0, 3}}));
}

}  // namespace
}  // namespace weightlift::layout
