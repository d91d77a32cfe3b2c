#include "weightlift/plan/assign_sources.hpp"

#include <algorithm>
#include <ostream>
#include <set>

#include <gtest/gtest.h>

namespace weightlift::plan {
namespace {

struct Assignment {
    const char* name;
    std::uint32_t sources;
    int engines, ranks;
    std::size_t least_sessions, most_sessions, most_replicas;
};
std::ostream& operator<<(std::ostream& out, const Assignment& row) { return out << row.name; }

class AssignSources : public testing::TestWithParam<Assignment> {};

// The rule of the design that this project started from, and its published vectors.
TEST_P(AssignSources, gives_sessions_and_replicas_as_published) {
    const Assignment& row = GetParam();
    std::vector<Rank> targets;
    for (int e = 0; e < row.engines; ++e)
        for (Rank r = 0; r < row.ranks; ++r) targets.push_back(r);
    const auto assigned = assign_sources(row.sources, targets);
    ASSERT_EQ(assigned.size(), targets.size());
    std::vector<std::size_t> sessions(row.sources);
    std::vector<std::set<Rank>> replicas(row.sources);
    for (std::size_t i = 0; i < assigned.size(); ++i) {
        ++sessions.at(assigned[i]);
        replicas[assigned[i]].insert(targets[i]);
    }
    std::size_t most_replicas = 0;
    for (const auto& of : replicas) most_replicas = std::max(most_replicas, of.size());
    EXPECT_EQ(*std::min_element(sessions.begin(), sessions.end()), row.least_sessions);
    EXPECT_EQ(*std::max_element(sessions.begin(), sessions.end()), row.most_sessions);
    EXPECT_EQ(most_replicas, row.most_replicas);
}

INSTANTIATE_TEST_SUITE_P(Rows, AssignSources,
                         testing::Values(Assignment{"origin_8_to_16", 8, 1, 16, 2, 2, 2},
                                         Assignment{"docstring", 4, 2, 3, 1, 2, 1},
                                         Assignment{"origin_16_to_8", 16, 1, 8, 0, 1, 1},
                                         Assignment{"exercise", 8, 2, 16, 4, 4, 2},
                                         Assignment{"glm_4_5_air", 8, 4, 8, 4, 4, 1},
                                         Assignment{"qwen3_235b", 16, 2, 32, 4, 4, 2},
                                         Assignment{"glm_5", 16, 2, 64, 8, 8, 4},
                                         Assignment{"kimi_k2", 32, 8, 32, 8, 8, 1}),
                         testing::PrintToStringParamName());

TEST(AssignSources, pairs_targets_as_the_docstring_does) {
    EXPECT_EQ(assign_sources(4, std::vector<Rank>{0, 1, 2, 0, 1, 2}),
              (std::vector<std::uint32_t>{0, 1, 2, 3, 1, 2}));
}

}  // namespace
}  // namespace weightlift::plan
