#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "nccl/lists.hpp"
#include "nccl/steps.hpp"

namespace weightlift::transport::nccl {
namespace {

/// A segment waits until `source` has placed `count` segments here; own ones where it is the rank.
struct Gate {
    std::size_t source = 0;
    std::size_t count = 0;
};

/// One rank. Destinations and sources are all ranks, so that indices are ranks.
struct Rank {
    std::vector<plan::Copy> copies;
    std::vector<Segment> segments;
    std::vector<std::vector<Gate>> gates;  ///< by segment
    std::vector<Pair> destinations, sources;
    Steps steps;
    std::size_t allowed = 0, placed = 0;
    std::size_t done = 0;  ///< steps
};

void make_lists(std::vector<Rank>& ranks, const MessageRules& rules) {
    for (std::size_t a = 0; a < ranks.size(); ++a) {
        BoundPlan plan;
        plan.broadcast_from = 2;
        for (std::size_t b = 0; b < ranks.size(); ++b)
            plan.destinations.push_back({static_cast<int>(b), 0, {}});
        plan.copies = ranks[a].copies;
        plan.segments = ranks[a].segments;
        const auto lists =
            cut_lists(plan, std::vector<MessageRules>(ranks.size(), rules), static_cast<int>(a));
        for (std::size_t b = 0; b < ranks.size(); ++b) {
            ranks[a].destinations.emplace_back().list = lists[b];
            ranks[b].sources.emplace_back().list = lists[b];
        }
    }
    for (Rank& rank : ranks)
        rank.steps = make_steps(rank.destinations, rank.sources, rank.segments);
}

/// Segments of random rounds from every rank to every other and itself, with all the gates that
/// the contract allows: for ones of smaller rounds.
std::vector<Rank> random_ranks(std::mt19937_64& random) {
    std::vector<Rank> ranks(2 + random() % 3);
    for (Rank& rank : ranks) {
        std::uint32_t round = 0;
        for (int i = 0; i < 25; ++i) {
            const auto d = static_cast<std::uint32_t>(random() % ranks.size());
            for (std::uint64_t c = random() % 3; c > 0; --c) {
                const Bytes n = 1 + random() % 5000;
                rank.copies.push_back({d, 0, n, 0, n, 1 + random() % 3, n});
            }
            rank.segments.push_back({rank.copies.size(), d, round});
            if (random() % 3 == 0) {  // the same to all, the rank itself among them
                ++round;
                const Bytes n = 1 + random() % 5000, at = random() % 100;
                for (std::uint32_t to = 0; to < ranks.size(); ++to) {
                    rank.copies.push_back({to, at, n, to, n, 1, n});
                    rank.segments.push_back({rank.copies.size(), to, round});
                }
                ++round;
            }
            round += static_cast<std::uint32_t>(random() % 3);
        }
        rank.gates.resize(rank.segments.size());
    }
    for (std::size_t r = 0; r < ranks.size(); ++r)
        for (std::size_t i = 0; i < ranks[r].segments.size(); ++i)
            for (std::size_t s = 0; s < ranks.size(); ++s) {
                const std::uint32_t round = ranks[r].segments[i].round;
                const auto before = std::count_if(
                    ranks[s].segments.begin(), ranks[s].segments.end(),
                    [&](const Segment& segment) {
                        return segment.round < round && (s == r || segment.destination == r);
                    });
                ranks[r].gates[i].push_back({s, static_cast<std::size_t>(before)});
            }
    return ranks;
}

bool is_open(const std::vector<Rank>& ranks, std::size_t r, std::size_t segment) {
    return std::all_of(
        ranks[r].gates[segment].begin(), ranks[r].gates[segment].end(), [&](const Gate& gate) {
            return gate.count <=
                   (gate.source == r ? ranks[r].placed : ranks[r].sources[gate.source].signals);
        });
}

/// Whether the rank's group of that number is on its stream, with none before it, or has ended.
bool has_reached(const Rank& rank, std::uint64_t number) {
    if (rank.done > 0 && rank.steps.list[rank.done - 1].number >= number) return true;
    const Step& step = rank.steps.list[rank.done];
    return step.number == number && step.needs <= rank.allowed;
}

bool has_round(const Pair& pair, std::uint64_t number) {
    return std::any_of(pair.list.rounds.begin(), pair.list.rounds.end(),
                       [&](const Round& round) { return round.number == number; });
}
bool is_in(const Pair& pair, std::uint64_t number) {
    return number == pair.list.answer_number() || has_round(pair, number);
}

/// As NCCL does it: a group ends when all whom it sends to or receives from have come to theirs,
/// and a broadcast when all members have.
bool can_end(const std::vector<Rank>& ranks, const Rank& rank) {
    const std::uint64_t number = rank.steps.list[rank.done].number;
    if (!has_reached(rank, number)) return false;
    if (is_broadcast(number)) {
        for (const auto* pairs : {&rank.destinations, &rank.sources})
            for (const Pair& pair : *pairs)
                if (has_round(pair, number))
                    return std::all_of(
                        pair.list.members.begin(), pair.list.members.end(), [&](int member) {
                            return has_reached(ranks[static_cast<std::size_t>(member)], number);
                        });
        ADD_FAILURE() << "a broadcast of nobody's";
    }
    for (std::size_t peer = 0; peer < ranks.size(); ++peer)
        if ((is_in(rank.destinations[peer], number) || is_in(rank.sources[peer], number)) &&
            !has_reached(ranks[peer], number))
            return false;
    return true;
}

void end_group(Rank& rank) {
    const Step& step = rank.steps.list[rank.done++];
    for (Pair& source : rank.sources)
        if (source.has(source.finished, step.number))
            source.signals =
                static_cast<std::uint32_t>(source.list.rounds[source.finished++].segments_end);
    rank.placed = step.placed;
}

/// Leading segments whose rounds are all among the rank's first `done` steps.
std::size_t placed_after(const Rank& rank, std::size_t done) {
    std::vector<std::size_t> there(rank.destinations.size());
    for (std::size_t d = 0; d < there.size(); ++d)
        for (const Round& round : rank.destinations[d].list.rounds)
            if (done > 0 && round.number <= rank.steps.list[done - 1].number)
                there[d] = round.segments_end;
    std::size_t placed = 0;
    while (placed < rank.segments.size() && there[rank.segments[placed].destination]-- > 0)
        ++placed;
    return placed;
}

TEST(NcclSteps, meet_at_both_ends_whatever_segments_wait_for) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        std::vector<Rank> ranks = random_ranks(random);
        make_lists(ranks, {.direct = 1 + random() % 4000,
                           .slot = 16 + random() % 3000,
                           .message = 1 + random() % 3000,
                           .messages = 1 + random() % 5});
        for (const Rank& rank : ranks) {
            if (ranks.size() < 3) break;
            EXPECT_TRUE(std::any_of(rank.steps.list.begin(), rank.steps.list.end(),
                                    [](const Step& step) { return is_broadcast(step.number); }));
        }
        bool has_moved = true;
        while (has_moved) {
            has_moved = false;
            for (std::size_t r = 0; r < ranks.size(); ++r) {
                Rank& rank = ranks[r];
                while (rank.allowed < rank.segments.size() && is_open(ranks, r, rank.allowed))
                    ++rank.allowed;
            }
            // Any of those that can, so that ranks get far ahead of each other.
            const std::size_t first = random() % ranks.size();
            for (std::size_t i = 0; i < ranks.size() && !has_moved; ++i) {
                Rank& rank = ranks[(first + i) % ranks.size()];
                if (rank.done == rank.steps.list.size() || !can_end(ranks, rank)) continue;
                has_moved = true;
                end_group(rank);
                ASSERT_EQ(rank.placed, placed_after(rank, rank.done));
            }
        }
        for (std::size_t r = 0; r < ranks.size(); ++r) {
            EXPECT_EQ(ranks[r].done, ranks[r].steps.list.size()) << "rank " << r << " waits";
            EXPECT_EQ(ranks[r].placed, ranks[r].segments.size());
            for (std::size_t s = 0; s < ranks.size(); ++s)
                EXPECT_EQ(ranks[r].sources[s].signals,
                          std::count_if(ranks[s].segments.begin(), ranks[s].segments.end(),
                                        [&](const auto& one) { return one.destination == r; }));
        }
    }
}

TEST(NcclSteps, send_nothing_that_is_not_allowed) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        std::vector<Rank> ranks = random_ranks(random);
        make_lists(ranks, {.direct = 500, .slot = 2000, .message = 900, .messages = 2});
        for (const Rank& rank : ranks)
            for (const Step& step : rank.steps.list) {
                std::size_t most = 0;
                for (std::size_t i = 0; i < rank.segments.size(); ++i)
                    if (rank.segments[i].round == round_of_plan(step.number)) most = i + 1;
                for (const Pair& to : rank.destinations)
                    for (const Round& round : to.list.rounds)
                        if (round.number == step.number && to.list.rounds.back().segments_end > 0) {
                            EXPECT_GE(step.needs, most);
                        }
            }
    }
}

TEST(NcclSteps, copy_all_that_a_rank_sends_itself_without_staging) {
    constexpr Bytes big = 3 * MiB, k = KiB;
    const plan::Copy copies[] = {{0, 0, big, 4 * big, big, 1, big},
                                 {0, big, 8 * k, 5 * big, 4 * k, 9, 4 * k},
                                 {0, 7, 90, 6 * big, 90, 1, 90}};
    const Segment segments[] = {{2, 0, 1}, {3, 0, 5}};
    std::vector<Pair> to(1), from(1);
    to[0].list = from[0].list = cut_segments(copies, segments, {});
    to[0].is_local = from[0].is_local = true;
    const Steps steps = make_steps(to, from, segments);
    EXPECT_EQ(steps.staging_bytes, 0U);
    std::vector<Bytes> expected(7 * big), actual(7 * big);
    const auto run = [](std::vector<Bytes>& memory, const auto& copy) {
        for (Bytes row = 0; row < copy.rows; ++row)
            for (Bytes i = 0; i < copy.row_bytes; ++i)
                memory[copy.dst_offset + row * copy.dst_pitch + i] =
                    copy.src_offset + row * copy.src_pitch + i + 1;
    };
    for (const auto& copy : copies) run(expected, copy);
    for (const Step& step : steps.list) {
        EXPECT_EQ(step.pack.size() + step.unpack.size(), 0U);
        EXPECT_TRUE(step.local.size() == 0 || step.has_more());
        for (std::size_t p = step.local.begin; p < step.local.end; ++p)
            run(actual, steps.pieces[p]);
    }
    EXPECT_EQ(actual, expected);
    EXPECT_EQ(steps.list.front().number, round_number(1, 0));
    EXPECT_GT(steps.list.front().local.size(), 0U);
}

TEST(NcclSteps, are_those_that_a_rank_has_a_part_in) {
    // Of a plan without segments: two rounds, and the answer two after.
    constexpr Bytes big = 100 * MiB, k = KiB;
    const plan::Copy copies[] = {{0, 0, big, 0, big, 1, big},
                                 {0, big, 8 * k, big, 4 * k, 9, 4 * k}};
    std::vector<Pair> to(1), from;
    to[0].list = cut_segments(copies, {}, {});
    const Steps steps = make_steps(to, from, {});
    ASSERT_EQ(steps.list.size(), 3U);
    const std::uint64_t numbers[] = {0, 1, 3};
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(steps.list[i].number, numbers[i]);
        EXPECT_EQ(steps.list[i].needs, 0U);
        EXPECT_EQ(steps.list[i].brings_mail, i == 2);
        EXPECT_EQ(steps.list[i].pack.size() > 0, i == 1);
    }
    EXPECT_EQ(to[0].last_step, 1U);
}

}  // namespace
}  // namespace weightlift::transport::nccl
