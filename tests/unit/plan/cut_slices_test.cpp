#include <map>
#include <numeric>
#include <ostream>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "weightlift/plan/shares.hpp"

namespace weightlift::plan {
namespace {

std::vector<Slice> cut(std::uint64_t units, Bytes unit_bytes,
                       const std::vector<std::uint32_t>& weights, std::uint64_t tensor,
                       std::uint64_t destination, Bytes minimum_slice) {
    std::vector<Slice> slices;
    cut_slices(units, unit_bytes, weights, tensor, destination, minimum_slice, slices);
    return slices;
}

std::uint64_t units_of(const std::vector<Slice>& slices, std::uint32_t holder) {
    std::uint64_t units = 0;
    for (const Slice& s : slices) units += s.holder == holder ? s.end - s.begin : 0;
    return units;
}

TEST(CutSlices, cover_all_units_once_in_order_and_none_is_below_the_minimum) {
    std::mt19937_64 random(7);
    const auto pick = [&](std::uint64_t low, std::uint64_t high) {
        return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
    };
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::uint32_t> weights(pick(1, 9), 1);
        if (pick(0, 1) == 1)
            for (auto& w : weights) w = static_cast<std::uint32_t>(pick(0, 3) * pick(1, 1U << 18));
        weights[pick(0, weights.size() - 1)] |= 1U;
        const std::uint64_t units = pick(1, pick(0, 1) == 1 ? 12 : 5000);
        const Bytes unit_bytes = pick(1, 3000), minimum = pick(0, 1) * pick(1, 200'000);
        const auto tensor = pick(0, 1'000'000), destination = pick(0, 5000);
        const auto slices = cut(units, unit_bytes, weights, tensor, destination, minimum);
        std::uint64_t at = 0;
        for (const Slice& s : slices) {
            ASSERT_EQ(s.begin, at);
            ASSERT_LT(s.begin, s.end);
            ASSERT_LT(s.holder, weights.size());
            ASSERT_GT(weights[s.holder], 0U) << "holder " << s.holder << " has no share";
            if (slices.size() > 1) {
                ASSERT_GE((s.end - s.begin) * unit_bytes, minimum)
                    << units << " units of " << unit_bytes << " bytes";
            }
            at = s.end;
        }
        ASSERT_EQ(at, units);
    }
}

TEST(CutSlices, a_slice_is_not_a_row_short_of_the_minimum) {
    // 37 rows of 14 336 bytes: 18 rows are 258 048 bytes, less than 256 KiB, so one holder serves.
    EXPECT_EQ(cut(37, 14'336, {1, 1}, 0, 0, 256 * KiB).size(), 1U);
    EXPECT_EQ(cut(38, 14'336, {1, 1}, 0, 0, 256 * KiB).size(), 2U);
}

TEST(CutSlices, do_not_overflow_with_the_largest_tensors) {
    const std::uint64_t units = 1ULL << 40;
    const auto slices = cut(units, 1ULL << 20, {1U << 20, 3U << 20}, 5, 9, 256 * KiB);
    EXPECT_EQ(units_of(slices, 0), units / 4);
    EXPECT_EQ(units_of(slices, 1), units / 4 * 3);
}

TEST(CutSlices, of_a_large_cell_are_equal_for_equal_weights) {
    const auto slices = cut(4096, 8192, {1, 1, 1, 1}, 3, 0, 256 * KiB);
    ASSERT_EQ(slices.size(), 4U);
    for (const Slice& s : slices) EXPECT_EQ(s.end - s.begin, 1024U);
}

TEST(CutSlices, of_a_large_cell_are_in_proportion_to_the_weights) {
    for (std::uint64_t destination = 0; destination < 3; ++destination) {
        const auto slices = cut(8000, 4096, {1, 2, 5}, 11, destination, 1 * MiB);
        EXPECT_EQ(units_of(slices, 0), 1000U);
        EXPECT_EQ(units_of(slices, 1), 2000U);
        EXPECT_EQ(units_of(slices, 2), 5000U);
    }
}

TEST(CutSlices, begin_with_the_next_holder_for_the_next_destination) {
    for (const std::uint64_t tensor : {0, 1, 2, 99}) {
        const std::uint32_t start = cut(4096, 8192, {1, 1, 1, 1}, tensor, 0, 0).front().holder;
        for (std::uint64_t d = 0; d < 8; ++d) {
            const auto slices = cut(4096, 8192, {1, 1, 1, 1}, tensor, d, 0);
            for (std::uint32_t i = 0; i < 4; ++i)
                EXPECT_EQ(slices[i].holder, (start + d + i) % 4) << "destination " << d;
        }
    }
}

TEST(CutSlices, begin_with_different_holders_for_different_tensors) {
    std::map<std::uint32_t, int> starts;
    for (std::uint64_t tensor = 0; tensor < 400; ++tensor)
        ++starts[cut(4096, 8192, {1, 1, 1, 1}, tensor, 5, 0).front().holder];
    for (std::uint32_t h = 0; h < 4; ++h) EXPECT_NEAR(starts[h], 100, 3) << "holder " << h;
}

TEST(CutSlices, of_a_small_cell_rotate_exactly_over_destinations) {
    // Too small to be cut: one holder each, and each of the four serves every fourth destination.
    std::map<std::uint32_t, int> served;
    for (std::uint64_t d = 0; d < 40; ++d) {
        const auto slices = cut(100, 100, {1, 1, 1, 1}, 17, d, 256 * KiB);
        ASSERT_EQ(slices.size(), 1U);
        ++served[slices.front().holder];
    }
    for (std::uint32_t h = 0; h < 4; ++h) EXPECT_EQ(served[h], 10) << "holder " << h;
}

struct Sampled {
    const char* name;
    std::uint64_t units;
    Bytes minimum_slice;
    std::size_t most_slices;
    std::vector<std::uint32_t> weights;
};
std::ostream& operator<<(std::ostream& out, const Sampled& row) { return out << row.name; }

class SystematicSampling : public testing::TestWithParam<Sampled> {};

TEST_P(SystematicSampling, gives_each_holder_its_share_over_many_cells) {
    const Sampled& row = GetParam();
    const auto sum = std::accumulate(row.weights.begin(), row.weights.end(), std::uint64_t{0});
    std::vector<double> got(row.weights.size(), 0);
    double total = 0;
    for (std::uint64_t tensor = 0; tensor < 100; ++tensor)
        for (std::uint64_t d = 0; d < 32; ++d) {
            const auto slices = cut(row.units, 1024, row.weights, tensor, d, row.minimum_slice);
            ASSERT_LE(slices.size(), row.most_slices);
            for (const Slice& s : slices) got[s.holder] += static_cast<double>(s.end - s.begin);
            total += static_cast<double>(row.units);
        }
    for (std::size_t h = 0; h < got.size(); ++h)
        EXPECT_NEAR(got[h] / total, static_cast<double>(row.weights[h]) / static_cast<double>(sum),
                    0.01)
            << "holder " << h;
}

INSTANTIATE_TEST_SUITE_P(
    Cells, SystematicSampling,
    testing::Values(Sampled{"one_slice", 64, 256 * KiB, 1, {1, 3}},
                    Sampled{"one_slice_of_many_weights", 64, 256 * KiB, 1, {7, 0, 2, 1, 10}},
                    Sampled{"two_slices_of_five_holders", 512, 256 * KiB, 2, {1, 2, 3, 4, 5}},
                    Sampled{"fewer_units_than_holders", 3, 0, 3, {5, 1, 1, 1, 1}},
                    Sampled{"a_very_small_share", 1024, 256 * KiB, 3, {1, 30, 69}},
                    Sampled{"equal_weights_two_slices", 512, 256 * KiB, 2, {1, 1, 1, 1, 1}}),
    testing::PrintToStringParamName());

TEST(CutSlices, are_in_proportion_although_another_share_is_too_small) {
    // The last holder's part is 8 of 8000 rows, the minimum 16: it serves every other destination.
    int served = 0;
    for (std::uint64_t destination = 0; destination < 20; ++destination) {
        const auto slices = cut(8000, 4096, {400, 599, 1}, 11, destination, 64 * KiB);
        const auto last = units_of(slices, 2);
        ASSERT_TRUE(last == 0 || last == 16) << last;
        served += last > 0 ? 1 : 0;
        EXPECT_NEAR(static_cast<double>(units_of(slices, 0)), 400.0 / 999 * 8000, 8);
        EXPECT_NEAR(static_cast<double>(units_of(slices, 1)), 599.0 / 999 * 8000, 11);
    }
    EXPECT_NEAR(served, 10, 1);
}

TEST(CutSlices, depend_on_their_arguments_alone) {
    const auto fresh = cut(5000, 700, {3, 1, 4}, 12, 34, 64 * KiB);
    std::vector<Slice> appended{{9, 0, 77}};
    cut_slices(5000, 700, std::vector<std::uint32_t>{3, 1, 4}, 12, 34, 64 * KiB, appended);
    ASSERT_EQ(appended.size(), fresh.size() + 1);
    EXPECT_EQ(appended.front().end, 77U) << "slices of another cell were touched";
    for (std::size_t i = 0; i < fresh.size(); ++i) {
        EXPECT_EQ(appended[i + 1].holder, fresh[i].holder);
        EXPECT_EQ(appended[i + 1].begin, fresh[i].begin);
        EXPECT_EQ(appended[i + 1].end, fresh[i].end);
    }
}

}  // namespace
}  // namespace weightlift::plan
