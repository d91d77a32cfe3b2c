#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "nic_tables.hpp"

namespace weightlift::transport {
namespace {

std::vector<Candidate> at(std::initializer_list<int> distances) {
    std::vector<Candidate> candidates;
    for (const int distance : distances)
        candidates.push_back({"mlx5_" + std::to_string(candidates.size()), 1, distance});
    return candidates;
}

struct Deal {
    const char* name;
    std::vector<Candidate> candidates;
    std::vector<std::vector<std::size_t>> by_rank;
};

TEST(DealNics, deals_the_nearest_out_to_the_ranks_that_see_them) {
    const Deal rows[] = {
        {"no NIC", {}, {{}, {}}},
        {"one NIC for all", at({0}), {{0}, {0}, {0}}},
        {"one rank takes all of the nearest", at({0, 0, 1, 1}), {{0, 1}}},
        {"one each", at({0, 0, 0, 0}), {{0}, {1}, {2}, {3}}},
        {"two each", at({0, 0, 0, 0}), {{0, 1}, {2, 3}}},
        {"uneven shares differ by one", at({0, 0, 0, 0, 0}), {{0, 1}, {2, 3, 4}}},
        {"in turn where there are fewer NICs than ranks", at({0, 0}), {{0}, {1}, {0}, {1}}},
        {"the nearest need not be near", at({2, 1, 2, 1}), {{1}, {3}}},
        {"the far one is left alone", at({3, 0, 3}), {{1}, {1}}},
    };
    for (const Deal& row : rows) {
        SCOPED_TRACE(row.name);
        const int size = static_cast<int>(row.by_rank.size());
        for (int rank = 0; rank < size; ++rank)
            EXPECT_EQ(deal_nics(row.candidates, rank, size),
                      row.by_rank[static_cast<std::size_t>(rank)])
                << "rank " << rank;
    }
}

TEST(DealNics, uses_every_near_one_and_evenly_for_all_sizes) {
    for (int nics = 1; nics <= 9; ++nics)
        for (int size = 1; size <= 17; ++size) {
            const std::vector<Candidate> candidates(static_cast<std::size_t>(nics));
            std::vector<int> uses(static_cast<std::size_t>(nics));
            for (int rank = 0; rank < size; ++rank) {
                const auto dealt = deal_nics(candidates, rank, size);
                ASSERT_FALSE(dealt.empty());
                EXPECT_TRUE(std::is_sorted(dealt.begin(), dealt.end()));
                for (const std::size_t i : dealt) ++uses[i];
            }
            const auto [least, most] = std::minmax_element(uses.begin(), uses.end());
            EXPECT_GE(*least, 1) << nics << " NICs, " << size << " ranks";
            EXPECT_LE(*most - *least, 1) << nics << " NICs, " << size << " ranks";
        }
}

}  // namespace
}  // namespace weightlift::transport
