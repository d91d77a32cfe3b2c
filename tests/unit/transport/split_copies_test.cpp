#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "cuda_ipc/work.hpp"

namespace weightlift::transport::cuda_ipc {
namespace {

constexpr Bytes kArena = 1 << 20;

SplitRules rules() {
    return {.small = 5000,
            .short_row = 128,
            .max_pitch = 40000,
            .op_bytes = 30000,
            .batch_bytes = 50000,
            .batch_ops = 3};
}

void run(std::vector<std::uint32_t>& dst, const plan::Copy& copy) {
    for (std::uint64_t row = 0; row < copy.rows; ++row)
        for (Bytes i = 0; i < copy.row_bytes; ++i)
            dst[copy.dst_offset + row * copy.dst_pitch + i] =
                static_cast<std::uint32_t>(copy.src_offset + row * copy.src_pitch + i + 1);
}

plan::Copy copy_of(const Piece& piece) {
    return {0,          piece.src_offset, piece.src_pitch, piece.dst_offset, piece.dst_pitch,
            piece.rows, piece.row_bytes};
}

/// Copies that do not overlap at a destination, of every kind that the rules tell apart.
std::vector<plan::Copy> random_copies(std::mt19937_64& random, std::size_t destinations) {
    std::vector<Bytes> end(destinations);
    std::vector<plan::Copy> copies;
    for (int i = 0; i < 60; ++i) {
        const auto d = static_cast<std::uint32_t>(random() % destinations);
        plan::Copy copy{.destination = d};
        copy.rows = random() % 3 == 0 ? 1 + random() % 40 : 1;
        copy.row_bytes = random() % 9 == 0 ? 0 : 1 + random() % (copy.rows > 1 ? 900 : 40000);
        copy.src_pitch = copy.row_bytes + (random() % 2) * (random() % 300);
        copy.dst_pitch = copy.row_bytes + (random() % 2) * (random() % 300);
        copy.src_offset = random() % (kArena / 4);
        copy.dst_offset = end[d];
        end[d] += copy.rows * copy.dst_pitch + random() % 50;
        if (end[d] < kArena && copy.src_offset + copy.rows * copy.src_pitch < kArena)
            copies.push_back(copy);
    }
    return copies;
}

TEST(SplitCopies, carries_every_byte_once_to_where_the_plan_says) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const std::size_t destinations = 1 + random() % 4;
        const auto copies = random_copies(random, destinations);
        const Work work = split_copies(copies, destinations, rules());
        std::vector<std::vector<std::uint32_t>> expected(destinations), actual;
        for (auto& one : expected) one.resize(kArena);
        actual = expected;
        Bytes planned = 0, carried = 0, said = 0;
        for (const auto& copy : copies) {
            run(expected[copy.destination], copy);
            planned += copy.bytes();
        }
        std::size_t ops = 0, pieces = 0;
        for (const Batch& batch : work.batches) {
            said += batch.bytes;
            for (std::size_t i = batch.first; i < batch.first + batch.count; ++i) {
                ASSERT_TRUE(batch.is_kernel || work.ops[i].destination == batch.destination);
                const auto part = batch.is_kernel ? copy_of(work.pieces[i]) : work.ops[i];
                run(actual[batch.destination], part);
                carried += part.bytes();
            }
            (batch.is_kernel ? pieces : ops) += batch.count;
        }
        EXPECT_EQ(ops, work.ops.size());
        EXPECT_EQ(pieces, work.pieces.size());
        EXPECT_EQ(carried, planned);
        EXPECT_EQ(said, planned);
        EXPECT_EQ(actual, expected);
    }
}

TEST(SplitCopies, keeps_segments_apart_and_in_order) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const std::size_t destinations = 1 + random() % 3;
        auto copies = random_copies(random, destinations);
        std::stable_sort(copies.begin(), copies.end(), [](const auto& a, const auto& b) {
            return a.destination < b.destination;
        });
        std::vector<Segment> segments;
        for (std::size_t i = 0; i < copies.size(); ++i) {
            const std::uint32_t d = copies[i].destination;
            const bool joins = !segments.empty() && segments.back().destination == d;
            if (joins && random() % 2 == 0)
                segments.back().end = i + 1;
            else
                segments.push_back({i + 1, d, 0});
            if (random() % 5 == 0) segments.push_back({i + 1, d, 0});  // an empty one
        }
        const Work work = split_segments(copies, segments, destinations, rules());
        std::vector<std::uint32_t> expected(kArena), actual(kArena);
        std::size_t batch = 0, copy = 0;
        for (std::size_t s = 0; s < segments.size(); ++s) {
            // Each destination's bytes by themselves.
            std::fill(expected.begin(), expected.end(), 0U);
            std::fill(actual.begin(), actual.end(), 0U);
            for (; copy < segments[s].end; ++copy) run(expected, copies[copy]);
            for (; batch < work.batches.size() && work.batches[batch].needs == s + 1; ++batch) {
                const Batch& one = work.batches[batch];
                EXPECT_EQ(one.destination, segments[s].destination);
                for (std::size_t i = one.first; i < one.first + one.count; ++i)
                    run(actual, one.is_kernel ? copy_of(work.pieces[i]) : work.ops[i]);
            }
            ASSERT_EQ(actual, expected) << "segment " << s;
        }
        EXPECT_EQ(batch, work.batches.size());
    }
}

TEST(SplitCopies, keeps_to_the_rules) {
    std::mt19937_64 random(3);
    const auto copies = random_copies(random, 3);
    const Work work = split_copies(copies, 3, rules());
    for (const Piece& piece : work.pieces)
        EXPECT_LE(Bytes{piece.rows} * piece.row_bytes, kPieceBytes);
    for (const plan::Copy& op : work.ops) {
        EXPECT_LE(op.bytes(), rules().op_bytes);
        EXPECT_TRUE(op.rows == 1 || op.row_bytes >= rules().short_row);
    }
    for (const Batch& batch : work.batches) {
        if (batch.is_kernel) continue;
        EXPECT_LE(batch.count, rules().batch_ops);
        EXPECT_LE(batch.bytes, rules().batch_bytes + rules().op_bytes);
    }
}

struct Row {
    const char* name;
    plan::Copy copy;
    bool is_of_kernel;
};

TEST(SplitCopies, tells_small_short_and_wide_from_what_engines_do) {
    const Row table[] = {
        {"small", {0, 0, 4999, 0, 4999, 1, 4999}, true},
        {"large enough", {0, 0, 5000, 0, 5000, 1, 5000}, false},
        {"rows that touch are one", {0, 0, 100, 0, 100, 50, 100}, false},
        {"short rows", {0, 0, 200, 0, 127, 100, 127}, true},
        {"rows long enough", {0, 0, 200, 0, 128, 100, 128}, false},
        {"wide pitch", {0, 0, 40001, 0, 1000, 5, 1000}, true},
        {"a single row has no pitch", {0, 0, 40001, 0, 40001, 1, 6000}, false},
    };
    for (const Row& row : table) {
        SCOPED_TRACE(row.name);
        const Work work = split_copies({&row.copy, 1}, 1, rules());
        EXPECT_EQ(work.ops.empty(), row.is_of_kernel);
        EXPECT_EQ(work.pieces.empty(), !row.is_of_kernel);
    }
}

}  // namespace
}  // namespace weightlift::transport::cuda_ipc
