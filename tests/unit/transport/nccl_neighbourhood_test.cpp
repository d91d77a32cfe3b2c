#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "nccl/neighbourhood.hpp"

namespace weightlift::transport::nccl {
namespace {

using Links = std::vector<std::vector<int>>;

/// What `rank` can reach.
std::vector<int> component(const Links& links, int rank) {
    std::vector<bool> seen(links.size());
    std::vector<int> open{rank}, found;
    seen[static_cast<std::size_t>(rank)] = true;
    while (!open.empty()) {
        const int at = open.back();
        open.pop_back();
        found.push_back(at);
        for (const int next : links[static_cast<std::size_t>(at)])
            if (!seen[static_cast<std::size_t>(next)]) {
                seen[static_cast<std::size_t>(next)] = true;
                open.push_back(next);
            }
    }
    std::sort(found.begin(), found.end());
    return found;
}

/// All ranks tell their neighbours in step, as long as they think they must; a rank that stops
/// before a neighbour does would leave that one waiting.
void expect_agreement(const Links& links) {
    std::vector<Neighbourhood> ranks;
    for (std::size_t r = 0; r < links.size(); ++r)
        ranks.emplace_back(static_cast<int>(r), links[r]);
    for (int round = 0;; ++round) {
        std::vector<bool> is_done;
        for (const Neighbourhood& rank : ranks)
            is_done.push_back(rank.rounds() && round >= *rank.rounds());
        for (std::size_t r = 0; r < links.size(); ++r)
            for (const int peer : links[r])
                ASSERT_EQ(is_done[r], is_done[static_cast<std::size_t>(peer)])
                    << "ranks " << r << " and " << peer << " in round " << round;
        if (std::count(is_done.begin(), is_done.end(), false) == 0) break;
        ASSERT_LE(round, 2 * static_cast<int>(links.size()));
        std::vector<mpi::Bytestring> told;
        for (const Neighbourhood& rank : ranks) told.push_back(rank.told());
        for (std::size_t r = 0; r < links.size(); ++r)
            for (const int peer : links[r])
                if (!is_done[r]) ranks[r].hear(told[static_cast<std::size_t>(peer)]);
    }
    for (std::size_t r = 0; r < links.size(); ++r)
        EXPECT_EQ(ranks[r].members(), component(links, static_cast<int>(r)));
}

void link(Links& links, int a, int b) {
    links[static_cast<std::size_t>(a)].push_back(b);
    links[static_cast<std::size_t>(b)].push_back(a);
}

TEST(Neighbourhood, is_agreed_on_along_a_chain) {
    Links links(9);
    for (int r = 0; r + 1 < 9; ++r) link(links, r, r + 1);
    expect_agreement(links);
}

TEST(Neighbourhood, is_agreed_on_between_random_trainers_and_rollouts) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const int size = 1 + static_cast<int>(random() % 20);
        Links links(static_cast<std::size_t>(size));
        const std::uint64_t count = random() % 30;
        for (std::uint64_t i = 0; i < count; ++i)
            link(links, static_cast<int>(random() % static_cast<std::uint64_t>(size)),
                 static_cast<int>(random() % static_cast<std::uint64_t>(size)));
        expect_agreement(links);
    }
}

TEST(Neighbourhood, of_a_rank_linked_to_itself_alone_needs_no_telling) {
    const Neighbourhood alone(3, {3, 3});
    EXPECT_EQ(alone.rounds(), 0);
    EXPECT_EQ(alone.members(), std::vector<int>{3});
    EXPECT_TRUE(alone.neighbours(3).empty());
}

}  // namespace
}  // namespace weightlift::transport::nccl
