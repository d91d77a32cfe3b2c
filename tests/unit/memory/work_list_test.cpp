#include "cuda/work_list.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace weightlift::memory::cuda {
namespace {

Block block_of(Interval rows, Interval columns, DType dtype, Bytes offset, Bytes extra_pitch) {
    return {offset, columns.size() * element_bytes(dtype) + extra_pitch, {rows, columns}, dtype, 7};
}

/// How often each byte of a block is gone over, as a warp does it.
std::vector<int> visits(const WorkList& list, std::size_t number) {
    const WorkBlock& block = list.blocks[number];
    std::vector<int> count(block.rows * block.row_bytes, 0);
    const std::uint64_t items = list.first_item[number + 1] - list.first_item[number];
    for (std::uint64_t item = 0; item < items; ++item)
        for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
            const LanePart part = lane_part(block, item, lane);
            for (std::uint64_t r = part.own_row; r < part.rows; r += part.side_by_side)
                for (std::uint32_t b = 0; b < part.width; ++b)
                    ++count.at((part.begin + r) * block.row_bytes + part.skip + b);
        }
    return count;
}

TEST(WorkList, goes_over_every_byte_once) {
    std::mt19937 random(11);
    std::vector<Block> blocks;
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    for (int i = 0; i < 200; ++i) {
        const auto dtype = static_cast<DType>(up_to(3));
        const std::uint64_t row = up_to(1000), column = up_to(5000);
        const bool is_tall = i % 2 == 0;
        blocks.push_back(block_of({row, row + up_to(is_tall ? 4500 : 70)},
                                  {column, column + up_to(is_tall ? 30 : 3000)}, dtype, up_to(100),
                                  up_to(40)));
    }
    const WorkList list = make_work_list(blocks);
    ASSERT_EQ(list.blocks.size(), blocks.size());
    for (std::size_t b = 0; b < blocks.size(); ++b)
        for (const int count : visits(list, b)) ASSERT_EQ(count, 1) << "block " << b;
}

TEST(WorkList, keeps_lanes_busy_on_the_rows_of_models) {
    struct Row {
        const char* name;
        std::uint64_t columns;
        std::uint32_t lane_bits;
    };
    for (const Row& row : {Row{"7168 bf16: 28 full strips", 7168, 5},
                           Row{"44 vectors: three strips of sixteen", 352, 4},
                           Row{"48 vectors: three strips of sixteen", 384, 4}, Row{"256 B", 128, 4},
                           Row{"one vector", 8, 0}, Row{"less than one", 3, 0}}) {
        const Block block = block_of({0, 64}, {0, row.columns}, DType::BF16, 0, 0);
        EXPECT_EQ(make_work_list({&block, 1}).blocks[0].lane_bits, row.lane_bits) << row.name;
    }
}

TEST(WorkList, knows_which_blocks_take_whole_accesses) {
    struct Row {
        const char* name;
        Block block;
        bool is_whole;
    };
    for (const Row& row :
         {Row{"aligned", block_of({0, 3}, {5, 13}, DType::BF16, 32, 16), true},
          Row{"offset", block_of({0, 3}, {0, 8}, DType::BF16, 8, 0), false},
          Row{"pitch", block_of({0, 3}, {0, 8}, DType::BF16, 0, 8), false},
          Row{"the pitch of one row", block_of({0, 1}, {0, 8}, DType::BF16, 0, 8), true},
          Row{"width", block_of({0, 3}, {0, 7}, DType::BF16, 0, 2), false}})
        EXPECT_EQ(make_work_list({&row.block, 1}).blocks[0].is_whole, row.is_whole) << row.name;
}

TEST(WorkList, finds_the_place_of_an_element) {
    const std::vector<Block> blocks{block_of({0, 0}, {0, 4}, DType::BF16, 0, 0),
                                    block_of({10, 12}, {0, 3}, DType::BF16, 100, 4),
                                    block_of({0, 5}, {2, 2}, DType::F32, 0, 16),
                                    block_of({0, 1}, {7, 9}, DType::F32, 200, 0)};
    const WorkList list = make_work_list(blocks);
    ASSERT_EQ(list.elements, 8U);
    const Place last_of_first = place_of(list, 5);
    EXPECT_EQ(last_of_first.block, 1U);
    EXPECT_EQ(last_of_first.row, 1U);
    EXPECT_EQ(last_of_first.column, 2U);
    EXPECT_EQ(last_of_first.offset, 100U + 10 + 4);
    const Place last = place_of(list, 7);
    EXPECT_EQ(last.block, 3U);
    EXPECT_EQ(last.column, 1U);
    EXPECT_EQ(last.offset, 204U);
}

TEST(WorkList, takes_byte_ranges_as_elements_of_one_byte) {
    const std::vector<ByteBlock> blocks{{3, 10, 4, 5}, {0, 0, 0, 9}, {50, 0, 1, 2}};
    const WorkList list = make_work_list(blocks);
    ASSERT_EQ(list.elements, 22U);
    EXPECT_EQ(place_of(list, 19).offset, 3U + 30 + 4);
    EXPECT_EQ(place_of(list, 21).offset, 51U);
    for (std::size_t b = 0; b < blocks.size(); ++b)
        for (const int count : visits(list, b)) ASSERT_EQ(count, 1) << "block " << b;
}

}  // namespace
}  // namespace weightlift::memory::cuda
