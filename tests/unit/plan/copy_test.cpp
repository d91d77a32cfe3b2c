#include "weightlift/plan/copy.hpp"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "weightlift/plan/planner.hpp"

#include "support/hand_layouts.hpp"

namespace weightlift::plan {
namespace {

using layout::Layout;
using layout::Side;
using test::hand_layout;
using test::hand_model;
using test::vector_of;

TEST(ArenaMap, places_parameters_at_aligned_offsets_in_layout_order) {
    const auto model = hand_model(
        {vector_of("a", 50), vector_of("b", 128), vector_of("c", 150), vector_of("d", 1)});
    const Layout layout = hand_layout(Side::Rollout, model, 2,
                                      {{"a", "a", {{0, 1}, {0, 50}}, {0}},
                                       {"d", "d", {{0, 1}, {0, 1}}, {1}},
                                       {"b", "b", {{0, 1}, {0, 128}}, {0, 1}},
                                       {"c", "c", {{0, 1}, {0, 150}}, {0}}});
    const ArenaMap map(layout, 0);
    ASSERT_EQ(map.parameters().size(), 3U);
    EXPECT_EQ(map.offset_of(0), 0U);    // 100 bytes
    EXPECT_EQ(map.offset_of(2), 256U);  // 256 bytes
    EXPECT_EQ(map.offset_of(3), 512U);  // 300 bytes
    EXPECT_EQ(map.bytes(), 1024U);
    EXPECT_EQ(map.offset_at(1), 256U);

    const ArenaMap other(layout, 1);
    EXPECT_EQ(other.offset_of(1), 0U);
    EXPECT_EQ(other.offset_of(2), 256U);
    EXPECT_EQ(other.bytes(), 512U);
}

TEST(ArenaMap, refuses_a_parameter_of_another_rank_as_our_bug) {
    const auto model = hand_model({vector_of("a", 4)});
    const Layout layout = hand_layout(Side::Rollout, model, 2, {{"a", "a", {{0, 1}, {0, 4}}, {0}}});
    EXPECT_EQ(ArenaMap(layout, 1).bytes(), 0U);
    try {
        (void)ArenaMap(layout, 1).offset_of(0);
        FAIL() << "not refused";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::Internal);
    }
}

/// One pair whose arenas are one large parameter each, so that a transfer's offsets are the
/// arena's.
class Merge : public testing::Test {
protected:
    std::vector<Copy> merge(const std::vector<Transfer>& transfers) {
        return merge_transfers(transfers, 3, map_, map_);
    }
    static Transfer transfer(Bytes src, Bytes src_pitch, Bytes dst, Bytes dst_pitch,
                             std::uint64_t rows, Bytes row_bytes) {
        Transfer t;
        t.src = {0, Buffer::Weights, 0, src, src_pitch};
        t.dst = {1, Buffer::Weights, 0, dst, dst_pitch};
        t.rows = rows;
        t.row_bytes = row_bytes;
        return t;
    }

private:
    model::ModelSpec model_ = hand_model({vector_of("a", 1 << 20)});
    Layout layout_ =
        hand_layout(Side::Rollout, model_, 1, {{"a", "a", {{0, 1}, {0, 1 << 20}}, {0}}});
    ArenaMap map_{layout_, 0};
};

TEST_F(Merge, makes_one_row_of_rows_without_gaps) {
    const auto copies = merge({transfer(100, 64, 200, 64, 10, 64)});
    ASSERT_EQ(copies.size(), 1U);
    EXPECT_EQ(copies[0], (Copy{3, 100, 640, 200, 640, 1, 640}));
}

TEST_F(Merge, joins_contiguous_neighbours) {
    const auto copies = merge({transfer(0, 64, 1000, 64, 2, 64), transfer(128, 32, 1128, 32, 4, 32),
                               transfer(256, 8, 1256, 8, 1, 8)});
    ASSERT_EQ(copies.size(), 1U);
    EXPECT_EQ(copies[0], (Copy{3, 0, 264, 1000, 264, 1, 264}));
}

struct Gap {
    const char* name;
    Bytes src, dst;
};

TEST_F(Merge, never_reaches_across_a_gap) {
    for (const Gap& gap : {Gap{"source", 66, 64}, Gap{"destination", 64, 66}, Gap{"both", 66, 66},
                           Gap{"source overlaps", 62, 64}, Gap{"backwards", 0, 0}})
        EXPECT_EQ(merge({transfer(0, 64, 0, 64, 1, 64), transfer(gap.src, 64, gap.dst, 64, 1, 64)})
                      .size(),
                  2U)
            << gap.name;
}

TEST_F(Merge, continues_the_rows_of_a_strided_copy) {
    const auto copies =
        merge({transfer(0, 512, 0, 256, 4, 128), transfer(2048, 512, 1024, 256, 3, 128)});
    ASSERT_EQ(copies.size(), 1U);
    EXPECT_EQ(copies[0], (Copy{3, 0, 512, 0, 256, 7, 128}));
}

TEST_F(Merge, keeps_strided_copies_apart_that_do_not_continue) {
    const Transfer first = transfer(0, 512, 0, 256, 4, 128);
    struct Row {
        const char* name;
        Transfer next;
    };
    for (const Row& row :
         {Row{"source one row further", transfer(2560, 512, 1024, 256, 3, 128)},
          Row{"destination one row further", transfer(2048, 512, 1280, 256, 3, 128)},
          Row{"another source pitch", transfer(2048, 640, 1024, 256, 3, 128)},
          Row{"another destination pitch", transfer(2048, 512, 1024, 384, 3, 128)},
          Row{"other rows", transfer(2048, 512, 1024, 256, 3, 64)},
          Row{"beside", transfer(128, 512, 128, 256, 4, 128)}})
        EXPECT_EQ(merge({first, row.next}).size(), 2U) << row.name;
}

TEST_F(Merge, keeps_a_copy_that_is_contiguous_on_one_side_only) {
    const auto copies = merge({transfer(0, 512, 0, 128, 4, 128)});
    ASSERT_EQ(copies.size(), 1U);
    EXPECT_EQ(copies[0], (Copy{3, 0, 512, 0, 128, 4, 128}));
}

TEST_F(Merge, does_not_join_across_an_unrelated_copy) {
    // Order is part of the plan: only neighbours in the list are looked at.
    EXPECT_EQ(merge({transfer(0, 64, 0, 64, 1, 64), transfer(4096, 64, 4096, 64, 1, 64),
                     transfer(64, 64, 64, 64, 1, 64)})
                  .size(),
              3U);
}

TEST(MergeTransfers, joins_parameters_that_touch_and_not_those_behind_padding) {
    // a and b are 256 bytes each and touch on both sides; c (100 bytes) is followed by a gap.
    const auto model = hand_model(
        {vector_of("a", 128), vector_of("b", 128), vector_of("c", 50), vector_of("d", 128)});
    std::vector<test::HandShard> shards;
    for (const char* name : {"a", "b", "c", "d"})
        shards.push_back({name, name, model.tensor(model.id(name)).box(), {0}});
    const Layout trainer = hand_layout(Side::Trainer, model, 1, shards);
    const Layout rollout = hand_layout(Side::Rollout, model, 1, shards);
    const Planner planner(model, trainer, rollout);
    const auto copies =
        merge_transfers(planner.received_by(1), 0, ArenaMap(trainer, 0), ArenaMap(rollout, 0));
    ASSERT_EQ(copies.size(), 2U);
    EXPECT_EQ(copies[0], (Copy{0, 0, 612, 0, 612, 1, 612}));
    EXPECT_EQ(copies[1], (Copy{0, 768, 256, 768, 256, 1, 256}));
}

Copy contiguous(std::uint32_t destination, Bytes offset, Bytes bytes) {
    return {destination, offset, bytes, offset + 1000, bytes, 1, bytes};
}

TEST(FirstDestination, spreads_sources_over_destinations) {
    struct Row {
        std::uint64_t sources, destinations;
        std::vector<std::uint64_t> first;
    };
    for (const Row& row :
         {Row{4, 4, {0, 1, 2, 3}}, Row{2, 8, {0, 4}}, Row{8, 2, {0, 0, 0, 0, 1, 1, 1, 1}},
          Row{3, 7, {0, 2, 4}}, Row{1, 5, {0}}})
        for (std::uint64_t s = 0; s < row.sources; ++s)
            EXPECT_EQ(first_destination(s, row.sources, row.destinations), row.first[s])
                << s << " of " << row.sources << " over " << row.destinations;
}

TEST(RotateCopies, go_round_by_chunk_from_the_first_destination_on) {
    const std::vector<std::vector<Copy>> lists{{contiguous(0, 0, 10)}, {contiguous(1, 100, 10)}};
    const auto order = rotate_copies(lists, 1, 4);
    const std::vector<Copy> expected{{1, 100, 4, 1100, 4, 1, 4}, {0, 0, 4, 1000, 4, 1, 4},
                                     {1, 104, 4, 1104, 4, 1, 4}, {0, 4, 4, 1004, 4, 1, 4},
                                     {1, 108, 2, 1108, 2, 1, 2}, {0, 8, 2, 1008, 2, 1, 2}};
    EXPECT_EQ(order, expected);
}

TEST(RotateCopies, cut_strided_copies_between_rows) {
    const std::vector<std::vector<Copy>> lists{{{0, 0, 16, 0, 8, 5, 3}}, {contiguous(1, 0, 1)}};
    const auto order = rotate_copies(lists, 0, 7);
    const std::vector<Copy> expected{{0, 0, 16, 0, 8, 2, 3},
                                     {1, 0, 1, 1000, 1, 1, 1},
                                     {0, 32, 16, 16, 8, 2, 3},
                                     {0, 64, 16, 32, 8, 1, 3}};
    EXPECT_EQ(order, expected);
}

TEST(RotateCopies, take_at_least_one_row_in_a_turn) {
    const std::vector<std::vector<Copy>> lists{{{0, 0, 200, 0, 100, 2, 100}},
                                               {contiguous(1, 0, 3)}};
    const auto order = rotate_copies(lists, 0, 2);
    ASSERT_EQ(order.size(), 4U);
    EXPECT_EQ(order[0], (Copy{0, 0, 200, 0, 100, 1, 100}));
    EXPECT_EQ(order[1].bytes(), 2U);
    EXPECT_EQ(order[2], (Copy{0, 200, 200, 100, 100, 1, 100}));
    EXPECT_EQ(order[3].bytes(), 1U);
}

TEST(RotateCopies, fill_a_chunk_from_several_small_copies) {
    const std::vector<std::vector<Copy>> lists{
        {contiguous(0, 0, 2), contiguous(0, 50, 2), contiguous(0, 90, 6)}, {contiguous(1, 0, 5)}};
    const auto order = rotate_copies(lists, 0, 5);
    std::vector<std::pair<std::uint32_t, Bytes>> seen;
    for (const Copy& c : order) seen.emplace_back(c.destination, c.bytes());
    EXPECT_EQ(seen, (std::vector<std::pair<std::uint32_t, Bytes>>{
                        {0, 2}, {0, 2}, {0, 1}, {1, 5}, {0, 5}}));
}

TEST(RotateCopies, with_one_destination_cut_nothing) {
    const std::vector<std::vector<Copy>> lists{{contiguous(0, 0, 1000), {0, 0, 16, 0, 8, 50, 3}}};
    EXPECT_EQ(rotate_copies(lists, 0, 4), lists.front());
}

TEST(RotateCopies, of_equal_work_bring_no_destination_more_than_its_share_of_sources_at_once) {
    constexpr Bytes kChunk = 4;
    for (std::uint64_t sources = 1; sources <= 17; ++sources)
        for (std::uint32_t destinations = 1; destinations <= 17; ++destinations) {
            std::vector<std::vector<Copy>> lists;
            for (std::uint32_t d = 0; d < destinations; ++d)
                lists.push_back({contiguous(d, 0, 3 * kChunk)});
            // How many sources write to each destination in each round.
            std::map<std::pair<std::size_t, std::uint32_t>, std::uint64_t> writers;
            for (std::uint64_t s = 0; s < sources; ++s) {
                const auto order =
                    rotate_copies(lists, first_destination(s, sources, destinations), kChunk);
                for (std::size_t round = 0; round < order.size(); ++round)
                    ++writers[{round, order[round].destination}];
            }
            const std::uint64_t share = (sources + destinations - 1) / destinations;
            for (const auto& [where, count] : writers)
                ASSERT_LE(count, share) << sources << " sources, " << destinations
                                        << " destinations, round " << where.first;
        }
}

TEST(RotateCopies, of_nothing_are_nothing) {
    EXPECT_TRUE(rotate_copies({}, 0, 4).empty());
    const std::vector<std::vector<Copy>> lists(3);
    EXPECT_TRUE(rotate_copies(lists, 2, 4).empty());
}

TEST(RotateCopies, chunks_are_at_most_the_limit_or_one_row_and_each_byte_goes_once) {
    std::uint64_t state = 1;
    const auto next = [&](std::uint64_t most) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return (state >> 33) % most + 1;
    };
    for (int round = 0; round < 300; ++round) {
        std::vector<std::vector<Copy>> lists(next(4) + 1);
        std::map<std::pair<std::uint32_t, Bytes>, int> expected, seen;
        const auto note = [](auto& into, const Copy& c) {
            for (std::uint64_t r = 0; r < c.rows; ++r)
                for (Bytes b = 0; b < c.row_bytes; ++b)
                    ++into[{c.destination, c.dst_offset + r * c.dst_pitch + b}];
            EXPECT_EQ(c.src_offset, 3 * c.dst_offset) << "source and destination were shifted";
            EXPECT_EQ(c.src_pitch, 3 * c.dst_pitch);
        };
        Bytes widest = 0;
        for (std::uint32_t d = 0; d < lists.size(); ++d) {
            Bytes at = 0;
            for (auto n = next(5); n > 0; --n) {
                const auto rows = next(9), row_bytes = next(20), pitch = row_bytes + next(3);
                // Rows stand three times as far apart at the source as at the destination.
                lists[d].push_back({d, 3 * at, 3 * pitch, at, pitch, rows + 1, row_bytes});
                note(expected, lists[d].back());
                at += (rows + 1) * pitch;
                widest = std::max(widest, row_bytes);
            }
        }
        const Bytes chunk = next(60);
        const auto order = rotate_copies(lists, next(10), chunk);
        std::map<std::uint32_t, std::size_t> last;
        for (std::size_t i = 0; i < order.size(); ++i) last[order[i].destination] = i;
        Bytes in_turn = 0;
        for (std::size_t i = 0; i < order.size(); ++i) {
            note(seen, order[i]);
            const auto destination = order[i].destination;
            in_turn = i > 0 && order[i - 1].destination == destination ? in_turn + order[i].bytes()
                                                                       : order[i].bytes();
            // While another destination waits, a turn ends where the destination changes.
            const bool another_waits = std::any_of(last.begin(), last.end(), [&](const auto& l) {
                return l.first != destination && l.second > i;
            });
            if (another_waits) {
                EXPECT_LE(in_turn, std::max(chunk, order[i].row_bytes));
            }
        }
        ASSERT_EQ(seen, expected);
    }
}

}  // namespace
}  // namespace weightlift::plan
