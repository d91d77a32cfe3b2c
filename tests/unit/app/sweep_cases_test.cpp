#include <gtest/gtest.h>

#include "app/options.hpp"
#include "app/sweep/cases.hpp"
#include "app/sweep/report.hpp"

namespace weightlift::app::sweep {
namespace {

std::vector<Case> cases(std::string_view toml, std::optional<int> launched) {
    return make_cases(parse_job(toml), launched, {});
}

TEST(SweepCases, counts_ranks_and_bytes_of_what_can_run) {
    const auto all = cases(
        "model = \"tiny-deepseek\"\nlayers = [1, 2]\ntrainer = \"tp=1\"\nrollout = \"tp=2\"\n"
        "iterations = 3\nwarmup = 1\n",
        4);
    ASSERT_EQ(all.size(), 2U);
    for (const Case& one : all) {
        EXPECT_TRUE(one.can_run()) << one.rule;
        EXPECT_EQ(one.ranks(), 3);
        EXPECT_EQ(one.pushes, 4U);
        EXPECT_GT(one.rank_bytes, 0U);
    }
    EXPECT_EQ(all[0].name, "tiny-deepseek/tp=1/tp=2/direct/auto/layers=1");
    EXPECT_LT(all[0].bytes, all[1].bytes);
}

TEST(SweepCases, gives_the_rule_of_each_combination_that_cannot_be) {
    struct Row {
        const char *name, *key, *value, *says;
    };
    for (const Row& row : {
             Row{"layout", "rollout", "tp=3", "tp=3"},
             Row{"too many ranks", "trainer", "tp=4", "needs 4 (trainer) + 1 (rollout) = 5 ranks"},
             Row{"strategy", "strategy", "teleport", "--strategy teleport"},
             Row{"transport", "transport", "pigeon", "pigeon"},
             Row{"file", "trainer", "@nowhere.json", "nowhere.json"},
         }) {
        Job job;
        job.products = {
            {{"model", {"tiny-deepseek"}}, {"trainer", {"tp=1"}}, {"rollout", {"tp=1"}}}};
        bool is_there = false;
        for (Axis& axis : job.products.front())
            if (axis.name == row.key) {
                axis.values = {row.value};
                is_there = true;
            }
        if (!is_there) job.products.front().push_back({row.key, {row.value}});
        const auto all = make_cases(job, 4, {});
        ASSERT_EQ(all.size(), 1U);
        EXPECT_FALSE(all.front().can_run()) << row.name;
        EXPECT_NE(all.front().rule.find(row.says), std::string::npos)
            << row.name << ": " << all.front().rule;
    }
}

TEST(SweepCases, does_not_count_ranks_of_an_allocation_that_nobody_told) {
    EXPECT_TRUE(cases("model = \"kimi-k2\"\ntrainer = \"tp=8,ep=32,etp=1\"\nrollout = "
                      "\"tp=16,ep=16\"\n",
                      std::nullopt)
                    .front()
                    .can_run());
}

TEST(SweepCases, gives_the_host_whose_memory_does_not_hold_its_ranks) {
    // 100 and 50 MiB of weights for a trainer and each of two rollouts.
    const Job job =
        parse_job("model = \"tensor:100MiB\"\ntrainer = \"tp=1\"\nrollout = \"tp=2\"\n");
    struct Row {
        const char *name, *roles;
        Hosts hosts;
        const char* says;
    };
    for (const Row& row : {
             Row{"one host holds all", "", {{"a", {0, 1, 2, 3}, 200 * MiB}}, ""},
             Row{"one host does not",
                 "",
                 {{"a", {0, 1, 2, 3}, 199 * MiB}},
                 "host a: its 3 ranks need 210 MB for weights, but only 209 MB of memory is "
                 "available there"},
             Row{"the second does not",
                 "",
                 {{"a", {0, 1}, 150 * MiB}, {"b", {2, 3}, 49 * MiB}},
                 "host b: its one rank needs 52.4"},
             Row{"roles decide",
                 "rollout:0-1,trainer:2",
                 {{"a", {0, 1}, 150 * MiB}, {"b", {2, 3}, 99 * MiB}},
                 "host b: its one rank needs 105 MB"},
         }) {
        Job with_roles = job;
        if (*row.roles != '\0') with_roles.products.front().push_back({"roles", {row.roles}});
        const auto all = make_cases(with_roles, 4, row.hosts);
        ASSERT_EQ(all.size(), 1U);
        EXPECT_EQ(all.front().can_run(), *row.says == '\0') << row.name;
        EXPECT_NE(all.front().rule.find(row.says), std::string::npos)
            << row.name << ": " << all.front().rule;
    }
}

TEST(SweepCases, refuses_the_job_for_a_key_that_no_push_has) {
    EXPECT_THROW(static_cast<void>(cases("layerz = 1\n", 4)), UnknownFlag);
}

TEST(SweepCases, take_every_strategy_and_tell_auto_from_what_it_may_choose) {
    const auto all = cases(
        "model = \"tiny-deepseek\"\ntrainer = \"tp=1\"\nrollout = \"tp=1\"\ncluster = "
        "\"h100-ib400\"\nstrategy = [\"direct\", \"replica\", \"broadcast\", \"relay\", "
        "\"auto\"]\n",
        2);
    std::vector<std::string> names;
    for (const Case& one : all) {
        EXPECT_TRUE(one.can_run()) << one.rule;
        names.push_back(one.name.substr(std::string("tiny-deepseek/tp=1/tp=1/").size()));
    }
    EXPECT_EQ(names, (std::vector<std::string>{"direct/auto", "replica/auto", "broadcast/auto",
                                               "relay/auto", "auto/auto/strategy=auto"}));
}

TEST(SweepCases, repeats_all_cases_after_all_have_been) {
    const auto all = cases(
        "model = \"tiny-deepseek\"\ntrainer = \"tp=1\"\nrollout = \"tp=1\"\n"
        "layers = [1, 2]\nrepetitions = 2\n",
        2);
    ASSERT_EQ(all.size(), 4U);
    for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i].repetition, i / 2);
        EXPECT_EQ(all[i].settings, all[i % 2].settings);
    }
}

TEST(SweepExitCode, is_the_gravest_of_all) {
    EXPECT_EQ(gravest(ExitCode::Ok, ExitCode::Ok), ExitCode::Ok);
    EXPECT_EQ(gravest(ExitCode::Ok, ExitCode::Usage), ExitCode::Usage);
    EXPECT_EQ(gravest(ExitCode::Transport, ExitCode::WrongData), ExitCode::WrongData);
    EXPECT_EQ(gravest(ExitCode::WrongData, ExitCode::Regression), ExitCode::WrongData);
    EXPECT_EQ(gravest(ExitCode::WrongData, ExitCode::Internal), ExitCode::Internal);
}

}  // namespace
}  // namespace weightlift::app::sweep
