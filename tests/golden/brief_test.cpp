// `show --brief` of a results file that is kept in the tree, line by line. After a wanted change:
//   WEIGHTLIFT_REGENERATE_GOLDEN=1 build/…/golden_brief, and review the difference.
#include "app/brief.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

namespace weightlift::app {
namespace {

record::RunRecord reference_run() {
    return record::read_results(
        WEIGHTLIFT_SOURCE_DIR "/results/reference/moonlight-4-layers-16-cores.h5", false);
}

void expect_golden(const std::string& name, const std::string& text) {
    const std::string path = WEIGHTLIFT_SOURCE_DIR "/tests/golden/briefs/" + name + ".txt";
    if (std::getenv("WEIGHTLIFT_REGENERATE_GOLDEN") != nullptr) {
        std::ofstream(path) << text;
        GTEST_SKIP() << "regenerated " << path;
    }
    std::ifstream file(path);
    EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(file), {})) << path;
}

TEST(Brief, of_a_pushed_model) { expect_golden("moonlight", brief(reference_run())); }

TEST(Brief, without_host_names) {
    record::RunRecord run = reference_run();
    ASSERT_FALSE(run.run.ranks.empty());
    for (std::size_t r = 0; r < run.run.ranks.size(); ++r)
        run.run.ranks[r].host = r < 8 ? "node7.cluster.example" : "node12.cluster.example";
    run.run.command_line += " --labels \"NODE7-ib0 and node12 (not node1 or mynode7)\"";
    const std::string text = without_hosts(brief(run), run);
    for (const char* name : {"node7.", "NODE7", "node12", "cluster.example"})
        EXPECT_EQ(text.find(name), std::string::npos) << text;
    EXPECT_NE(text.find("not node1 or mynode7"), std::string::npos) << text;
    expect_golden("moonlight-anonymous", text);
}

TEST(Brief, hashes_of_two_runs_do_not_agree) {
    record::RunRecord run = reference_run();
    const std::string one = without_hosts(run.run.ranks[0].host, run);
    EXPECT_EQ(one, without_hosts(run.run.ranks[0].host, run));
    run.run.run_uuid += "1";
    EXPECT_NE(one, without_hosts(run.run.ranks[0].host, run));
}

TEST(Brief, tells_what_a_strategy_stages_but_not_how_each_rank_moves_it) {
    record::RunRecord run = reference_run();
    run.events = {{"", "staging slots", "0 of 1 destinations", 0},
                  {"", "staging", "1.05 MB on the rank with the most", 0}};
    const std::string text = brief(run);
    EXPECT_EQ(text.find("staging slots"), std::string::npos) << text;
    EXPECT_NE(text.find("staging: 1.05 MB on the rank with the most"), std::string::npos) << text;
}

TEST(Brief, many_cases_stay_within_forty_lines) {
    record::RunRecord run = reference_run();
    for (int i = 0; i < 100; ++i) {
        run.cases.push_back(run.cases.front());
        run.events.push_back({"2026-11-30T00:00:00Z", "failure", std::string(1000, 'x'), 0});
    }
    const std::string text = brief(run);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 40);
    EXPECT_NE(text.find(" more in the file"), std::string::npos) << text;
    EXPECT_NE(text.find("slowest rank 12 on vm"), std::string::npos) << text;
    run.cases.resize(1);
    record::CaseRecord& wordy = run.cases.front();
    for (int i = 0; i < 100; ++i) wordy.traffic.push_back({0, 1, "t" + std::to_string(i), 1});
    const std::string cut = brief(run);
    EXPECT_EQ(std::count(cut.begin(), cut.end(), '\n'), 40);
    EXPECT_NE(cut.find(" lines left out\n"), std::string::npos) << cut;
}

}  // namespace
}  // namespace weightlift::app
