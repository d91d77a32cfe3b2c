#include <random>

#include <gtest/gtest.h>

#include "weightlift/transport/transport.hpp"

#include "nccl/messages.hpp"

namespace weightlift::transport::nccl {
namespace {

constexpr Bytes kArena = 1 << 19;

void run(std::vector<std::uint32_t>& dst, const plan::Copy& copy) {
    for (std::uint64_t row = 0; row < copy.rows; ++row)
        for (Bytes i = 0; i < copy.row_bytes; ++i)
            dst[copy.dst_offset + row * copy.dst_pitch + i] =
                static_cast<std::uint32_t>(copy.src_offset + row * copy.src_pitch + i + 1);
}

/// Copies of one pair that do not overlap at the destination: empty, short, long and strided ones,
/// some going on where the last ended.
std::vector<plan::Copy> random_copies(std::mt19937_64& random) {
    std::vector<plan::Copy> copies;
    Bytes end = 0;
    for (int i = 0; i < 80; ++i) {
        plan::Copy copy;
        copy.rows = random() % 3 == 0 ? 1 + random() % 40 : 1;
        copy.row_bytes = random() % 9 == 0 ? 0 : 1 + random() % (copy.rows > 1 ? 4000 : 40000);
        copy.src_pitch = copy.row_bytes + (random() % 2) * (random() % 300);
        copy.dst_pitch = copy.row_bytes + (random() % 2) * (random() % 300);
        copy.src_offset = random() % (kArena / 4);
        copy.dst_offset = end;
        if (!copies.empty() && random() % 3 == 0) {
            const plan::Copy& last = copies.back();
            copy.row_bytes = last.row_bytes;
            copy.rows = last.rows == 1 ? 1 : copy.rows;
            copy.src_pitch = last.src_pitch;
            copy.dst_pitch = last.dst_pitch;
            copy.src_offset =
                last.src_offset + (last.rows == 1 ? last.row_bytes : last.rows * last.src_pitch);
            copy.dst_offset = end =
                last.dst_offset + (last.rows == 1 ? last.row_bytes : last.rows * last.dst_pitch);
        }
        end += copy.rows * copy.dst_pitch + random() % 50;
        if (end >= kArena || copy.src_offset + copy.rows * copy.src_pitch >= kArena) break;
        copies.push_back(copy);
    }
    return copies;
}

MessageRules random_rules(std::mt19937_64& random) {
    MessageRules rules{.direct = 1 + random() % 5000,
                       .slot = 16 + random() % 30000,
                       .message = 1 + random() % 50000,
                       .messages = 1 + random() % 5,
                       .least_packed = 1 + random() % 20000};
    if (random() % 3 == 0) rules.message = ~Bytes{0};
    return rules;
}

TEST(NcclMessages, carry_every_byte_once_to_where_the_plan_says) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const auto copies = random_copies(random);
        const PairMessages list = cut_messages(copies, random_rules(random));
        std::vector<std::uint32_t> expected(kArena), actual(kArena);
        Bytes planned = 0, carried = 0;
        for (const auto& copy : copies) {
            run(expected, copy);
            planned += copy.bytes();
        }
        // As the transport does it: by rounds, packed copies through their message.
        for (std::size_t round = 0; round < list.rounds.size(); ++round) {
            for (const Message& m : list.messages_of(round)) {
                run(actual, {0, m.src_offset, m.bytes, m.dst_offset, m.bytes, 1, m.bytes});
                carried += m.bytes;
            }
            std::vector<std::uint32_t> staged(list.rounds[round].packed_bytes);
            for (const auto& [copy, at] : list.packed_of(round)) {
                ASSERT_LE(at + copy.bytes(), staged.size());
                for (Bytes i = 0; i < copy.bytes(); ++i)
                    ASSERT_EQ(staged[at + i], 0U) << "two copies in one place";
                run(staged, {0, copy.src_offset, copy.src_pitch, at, copy.row_bytes, copy.rows,
                             copy.row_bytes});
            }
            for (const auto& [copy, at] : list.packed_of(round)) {
                for (std::uint64_t row = 0; row < copy.rows; ++row)
                    for (Bytes i = 0; i < copy.row_bytes; ++i)
                        actual[copy.dst_offset + row * copy.dst_pitch + i] =
                            staged[at + row * copy.row_bytes + i];
                carried += copy.bytes();
            }
        }
        EXPECT_EQ(carried, planned);
        EXPECT_EQ(list.bytes(), planned);
        EXPECT_EQ(actual, expected);
        EXPECT_NO_THROW(check_messages(list, kArena, "rank 1"));
    }
}

/// Segments of about every other copy, some of them empty, some of one round.
std::vector<Segment> random_segments(std::mt19937_64& random, std::size_t copies) {
    std::vector<Segment> segments;
    std::size_t end = 0;
    auto round = static_cast<std::uint32_t>(random() % 3);
    while (end < copies || random() % 4 != 0) {
        end = std::min<std::size_t>(copies, end + random() % 4);
        segments.push_back({end, 0, round});
        round += static_cast<std::uint32_t>(random() % 3);
    }
    return segments;
}

/// Bytes of the list's rounds below `end`, as the transport puts them into memory.
std::vector<std::uint32_t> memory_after(const PairMessages& list, std::size_t end) {
    std::vector<std::uint32_t> memory(kArena);
    for (std::size_t round = 0; round < end; ++round) {
        for (const Message& m : list.messages_of(round))
            run(memory, {0, m.src_offset, m.bytes, m.dst_offset, m.bytes, 1, m.bytes});
        for (const Packed& one : list.packed_of(round)) run(memory, one.copy);
    }
    return memory;
}

TEST(NcclMessages, of_a_segment_are_in_rounds_of_its_own_number) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const auto copies = random_copies(random);
        const auto segments = random_segments(random, copies.size());
        const PairMessages list = cut_segments(copies, segments, random_rules(random));
        EXPECT_NO_THROW(check_messages(list, kArena, "rank 1"));
        EXPECT_EQ(list.rounds.back().segments_end, segments.size());
        std::vector<std::uint32_t> expected(kArena);
        std::size_t segment = 0, copy = 0;
        for (std::size_t round = 0; round < list.rounds.size(); ++round) {
            const Round& now = list.rounds[round];
            const bool carries_bytes = now.packed_bytes > 0 || !list.messages_of(round).empty();
            EXPECT_TRUE(carries_bytes || list.carries_epoch(round)) << "nothing to wait for";
            if (round > 0) {
                EXPECT_EQ(list.carries_epoch(round), !carries_bytes);
            }
            const std::size_t before = segment;
            for (; segment < now.segments_end; ++segment) {
                EXPECT_EQ(segments[segment].round, round_of_plan(now.number));
                for (; copy < segments[segment].end; ++copy) run(expected, copies[copy]);
            }
            if (segment > before) {
                ASSERT_EQ(memory_after(list, round + 1), expected) << "after round " << round;
                EXPECT_TRUE(segment == segments.size() ||
                            segments[segment].round > round_of_plan(now.number))
                    << "a round of the plan ends once";
            } else {
                EXPECT_EQ(round_of_plan(now.number), segments[segment].round);
            }
        }
    }
}

TEST(NcclMessages, of_several_segments_are_signalled_when_the_last_is_there) {
    constexpr Bytes k = KiB;
    const plan::Copy copies[] = {{0, 0, 4 * MiB, 0, 4 * MiB, 1, 4 * MiB},
                                 {0, 4 * MiB, k, 4 * MiB, k, 1, k},
                                 {0, 5 * MiB, 8 * k, 5 * MiB, 4 * k, 100, 4 * k}};
    const Segment segments[] = {{1, 0, 3}, {2, 0, 3}, {2, 0, 5}, {3, 0, 9}};
    const PairMessages list = cut_segments(copies, segments, {});
    ASSERT_EQ(list.rounds.size(), 3U);
    const std::uint64_t numbers[] = {round_number(3, 0), round_number(5, 0), round_number(9, 0)};
    const std::uint64_t ends[] = {2, 3, 4};
    const bool epochs[] = {true, true, false};
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(list.rounds[i].number, numbers[i]);
        EXPECT_EQ(list.rounds[i].segments_end, ends[i]);
        EXPECT_EQ(list.carries_epoch(i), epochs[i]);
    }
    EXPECT_EQ(round_of_plan(list.answer_number()), 9U);
    // Without segments numbers count rounds from 0.
    EXPECT_EQ(cut_segments({}, {}, {}).rounds.size(), 1U);
    EXPECT_EQ(cut_segments({}, {}, {}).answer_number(), 2U);
}

TEST(NcclMessages, keep_to_the_rules) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const auto copies = random_copies(random);
        const MessageRules rules = random_rules(random);
        const PairMessages list = cut_messages(copies, rules);
        ASSERT_FALSE(list.rounds.empty());
        for (std::size_t round = 0; round < list.rounds.size(); ++round) {
            EXPECT_LE(list.messages_of(round).size(), rules.messages);
            EXPECT_LE(list.rounds[round].packed_bytes, rules.slot);
            EXPECT_EQ(list.rounds[round].packed_bytes == 0, list.packed_of(round).empty());
        }
        for (const Message& message : list.messages) EXPECT_LE(message.bytes, rules.message);
        for (const Packed& one : list.packed) EXPECT_EQ(one.at % 16, 0U);
    }
}

struct Row {
    const char* name;
    std::vector<plan::Copy> copies;
    std::size_t messages, packed, rounds;
};

TEST(NcclMessages, are_few_where_ranges_are_long) {
    constexpr Bytes k = KiB, big = 100 * MiB;
    const Row table[] = {
        {"nothing but a notice", {}, 0, 0, 1},
        {"one range", {{0, 0, big, 0, big, 1, big}}, 1, 0, 1},
        {"rows that touch are one", {{0, 0, 4 * k, 0, 4 * k, 1000, 4 * k}}, 1, 0, 1},
        {"chunks of a rotation go together again",
         {{0, 0, big, 0, big, 1, big}, {0, big, big, big, big, 1, big}},
         1,
         0,
         1},
        {"short rows are one packed copy", {{0, 0, 8 * k, 0, 4 * k, 1000, 4 * k}}, 0, 1, 1},
        {"chunks of rows go together again",
         {{0, 0, 8 * k, 0, 4 * k, 10, 4 * k}, {0, 80 * k, 8 * k, 40 * k, 4 * k, 10, 4 * k}},
         0,
         1,
         1},
        {"long rows need no staging", {{0, 0, 4 * MiB, 0, 2 * MiB, 10, 2 * MiB}}, 10, 0, 1},
        // Two rounds: the first has nothing packed.
        {"ranges travel while rows are packed",
         {{0, 0, big, 0, big, 1, big}, {0, big, 8 * k, big, 4 * k, 1000, 4 * k}},
         2,
         1,
         2},
    };
    for (const Row& row : table) {
        SCOPED_TRACE(row.name);
        const PairMessages list = cut_messages(row.copies, {});
        EXPECT_EQ(list.messages.size(), row.messages);
        EXPECT_EQ(list.packed.size(), row.packed);
        EXPECT_EQ(list.rounds.size(), row.rounds);
    }
}

TEST(NcclMessages, of_a_peer_are_refused_where_they_leave_this_ranks_memory) {
    const std::vector<plan::Copy> copies{{0, 0, 5000, 100, 5000, 1, 5000},
                                         {0, 6000, 200, 6000, 150, 10, 100}};
    MessageRules rules;
    rules.direct = 1000;
    const PairMessages good = cut_messages(copies, rules);
    EXPECT_NO_THROW(check_messages(good, 7450, "rank 3"));
    const auto expect_refusal = [&](const char* what, auto change) {
        PairMessages bad = good;
        change(bad);
        try {
            check_messages(bad, 7450, "rank 3");
            ADD_FAILURE() << what << " was taken";
        } catch (const TransportError& error) {
            EXPECT_NE(std::string(error.what()).find("rank 3"), std::string::npos) << error.what();
        }
    };
    expect_refusal("a range", [](PairMessages& l) {
        l.messages.back().dst_offset = 7451 - l.messages.back().bytes;
    });
    expect_refusal("a row", [](PairMessages& l) { l.packed[0].copy.dst_offset = 6001; });
    expect_refusal("a wrapped row", [](PairMessages& l) { l.packed[0].copy.dst_offset = ~0ULL; });
    expect_refusal("a place in the message", [](PairMessages& l) { l.packed[0].at = 1; });
    expect_refusal("no rounds", [](PairMessages& l) { l.rounds.clear(); });
    expect_refusal("a lost round", [](PairMessages& l) { l.rounds.pop_back(); });
    expect_refusal("numbers that do not ascend",
                   [](PairMessages& l) { l.rounds.push_back(l.rounds.back()); });
    expect_refusal("segments that are lost", [](PairMessages& l) {
        l.rounds.push_back(l.rounds.back());
        ++l.rounds.back().number;
        ++l.rounds[l.rounds.size() - 2].segments_end;
    });
    expect_refusal("an end too far", [](PairMessages& l) { l.rounds[0].messages_end = 99; });
}

}  // namespace
}  // namespace weightlift::transport::nccl
