#include "weightlift/session/weight_store.hpp"

#include <gtest/gtest.h>

#include "weightlift/base/hash.hpp"

#include "support/hand_layouts.hpp"

namespace weightlift::session {
namespace {

using layout::Side;
using test::hand_model;
using test::matrix;
using test::vector_of;

/// Rank 0: "fused" (rows of a over rows of b, then two rows of padding) and "norm"; rank 1: "norm".
class Store : public testing::Test {
protected:
    static layout::Layout make_layout(const model::ModelSpec& model) {
        layout::LayoutBuilder builder(Side::Rollout, "by-hand", 2);
        builder.begin_engine(0);
        layout::Parameter fused;
        fused.name = "fused";
        fused.shape = {{8, 4, 0}, 2};
        fused.pieces = {{0, {{0, 4}, {0, 4}}, 0, 8}, {1, {{2, 4}, {0, 4}}, 32, 8}};
        fused.padding = {{48, 8, 2, 8}};
        fused.ranks = builder.rank_set({0});
        builder.add(std::move(fused));
        layout::Parameter norm;
        norm.name = "norm";
        norm.shape = {{5, 0, 0}, 1};
        norm.pieces = {{2, {{0, 1}, {0, 5}}, 0, 10}};
        norm.ranks = builder.rank_set({0, 1});
        builder.add(std::move(norm));
        return std::move(builder).finish(model);
    }
    model::ModelSpec model_ = hand_model({matrix("a", 4, 4), matrix("b", 6, 4), vector_of("c", 5)});
    layout::Layout layout_ = make_layout(model_);
};

TEST_F(Store, places_pieces_and_padding_in_the_arena) {
    const WeightStore store(model_, layout_, 0);
    EXPECT_EQ(store.bytes(), 512U);
    EXPECT_EQ(store.rank(), 0);
    ASSERT_EQ(store.blocks().size(), 3U);
    ASSERT_EQ(store.block_pieces().size(), 3U);
    struct Row {
        Bytes offset, pitch;
        Box box;
        const char* tensor;
        layout::ParameterIndex parameter;
        std::uint32_t piece;
    };
    const Row expected[] = {{0, 8, {{0, 4}, {0, 4}}, "a", 0, 0},
                            {32, 8, {{2, 4}, {0, 4}}, "b", 0, 1},
                            {256, 10, {{0, 1}, {0, 5}}, "c", 1, 0}};
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(store.blocks()[i].offset, expected[i].offset);
        EXPECT_EQ(store.blocks()[i].pitch, expected[i].pitch);
        EXPECT_EQ(store.blocks()[i].box, expected[i].box);
        EXPECT_EQ(store.blocks()[i].tensor, hash_name(expected[i].tensor));
        EXPECT_EQ(store.blocks()[i].dtype, DType::BF16);
        EXPECT_EQ(store.block_pieces()[i].parameter, expected[i].parameter);
        EXPECT_EQ(store.block_pieces()[i].piece, expected[i].piece);
    }
    ASSERT_EQ(store.padding().size(), 1U);
    EXPECT_EQ(store.padding()[0].offset, 48U);
    EXPECT_EQ(store.padding()[0].rows, 2U);
    EXPECT_EQ(store.padding()[0].row_bytes, 8U);
}

TEST_F(Store, finds_the_parameter_of_an_offset) {
    const WeightStore store(model_, layout_, 0);
    EXPECT_EQ(store.parameter_at(0), 0U);
    EXPECT_EQ(store.parameter_at(63), 0U);
    EXPECT_EQ(store.parameter_at(200), 0U) << "the gap behind a parameter is the last one's";
    EXPECT_EQ(store.parameter_at(256), 1U);
    EXPECT_EQ(store.parameter_at(511), 1U);
}

TEST_F(Store, holds_the_parameters_of_its_rank_only) {
    const WeightStore store(model_, layout_, 1);
    EXPECT_EQ(store.bytes(), 256U);
    ASSERT_EQ(store.blocks().size(), 1U);
    EXPECT_EQ(store.blocks()[0].offset, 0U);
    EXPECT_TRUE(store.padding().empty());
}

TEST_F(Store, leaves_padding_zero_when_it_is_filled_and_poisoned) {
    WeightStore store(model_, layout_, 0);
    store.allocate();
    EXPECT_GE(store.arena().bytes(), store.bytes());
    for (const std::uint64_t version : {1, 2}) {
        store.arena().poison(store.blocks());
        EXPECT_FALSE(store.arena().first_nonzero(store.padding()));
        EXPECT_TRUE(store.arena().compare(store.blocks(), version));
        store.arena().fill(store.blocks(), version);
        EXPECT_FALSE(store.arena().first_nonzero(store.padding()));
        EXPECT_FALSE(store.arena().compare(store.blocks(), version));
    }
    store.arena().flip(55);
    EXPECT_EQ(store.arena().first_nonzero(store.padding()), 55U);
    EXPECT_FALSE(store.arena().compare(store.blocks(), 2)) << "padding is no value";
}

}  // namespace
}  // namespace weightlift::session
