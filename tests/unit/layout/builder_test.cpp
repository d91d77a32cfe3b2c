// What LayoutBuilder accepts and refuses, with hand-made parameters.
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "weightlift/layout/layout.hpp"

#include "refused.hpp"

namespace weightlift::layout {
namespace {

ModelSpec tiny_model() {
    return ModelSpec("tiny",
                     {{"a", DType::BF16, 2, 4, 8},  // 64 bytes
                      {"b", DType::BF16, 2, 4, 4},  // 32 bytes
                      {"bias", DType::F32, 1, 1, 8}},
                     std::nullopt);
}
constexpr TensorId kA = 0, kB = 1, kBias = 2;

/// Whole `a` in one parameter.
Parameter whole_a(RankSetId ranks = 0) {
    Parameter p;
    p.name = "a";
    p.shape = {{4, 8, 0}, 2};
    p.pieces = {{kA, {{0, 4}, {0, 8}}, 0, 16}};
    p.ranks = ranks;
    return p;
}

/// [a | b] side by side: strided pieces of pitch 24.
Parameter side_by_side() {
    Parameter p;
    p.name = "ab";
    p.shape = {{4, 12, 0}, 2};
    p.pieces = {{kA, {{0, 4}, {0, 8}}, 0, 24}, {kB, {{0, 4}, {0, 4}}, 16, 24}};
    return p;
}

Layout finish(std::vector<Parameter> parameters, Rank world = 1) {
    LayoutBuilder builder(Side::Trainer, "test", world);
    (void)builder.rank_set({0});
    for (Parameter& p : parameters) builder.add(std::move(p));
    return std::move(builder).finish(tiny_model());
}

TEST(LayoutBuilder, accepts_contiguous_and_strided_content) {
    EXPECT_EQ(finish({whole_a()}).bytes_of(0), 64U);
    EXPECT_EQ(finish({side_by_side()}).bytes_of(0), 96U);
}

TEST(LayoutBuilder, accepts_contiguous_runs_beside_strided_pieces) {
    // Rows of 24 bytes: three of [a | b], and below them the last row of b, a's, and padding.
    Parameter p = side_by_side();
    p.pieces = {{kA, {{0, 3}, {0, 8}}, 0, 24},
                {kB, {{0, 3}, {0, 4}}, 16, 24},
                {kB, {{3, 4}, {0, 4}}, 72, 8},
                {kA, {{3, 4}, {0, 6}}, 80, 12}};
    p.padding = {{92, 4, 1, 4}};
    EXPECT_NO_THROW((void)finish({p}));
    // A run that begins in one row and ends two rows below.
    p.shape = {{4, 12, 0}, 2};
    p.pieces = {{kA, {{0, 1}, {0, 8}}, 0, 24}};
    p.padding = {{16, 56, 1, 56}, {72, 24, 1, 12}, {84, 24, 1, 12}};
    EXPECT_NO_THROW((void)finish({p}));
}

TEST(LayoutBuilder, indexes_pieces_and_holders) {
    LayoutBuilder builder(Side::Rollout, "test", 4);
    builder.begin_engine(0);
    builder.begin_engine(3);
    const RankSetId even = builder.rank_set({0, 2}), odd = builder.rank_set({1, 3});
    EXPECT_EQ(builder.rank_set({0, 2}), even) << "equal sets are one";
    builder.add(whole_a(even));
    builder.add(whole_a(odd));
    Parameter ab = side_by_side();
    ab.ranks = odd;
    builder.add(ab);
    const Layout layout = std::move(builder).finish(tiny_model());

    EXPECT_EQ(layout.rank_set_count(), 2U);
    EXPECT_TRUE(layout.holds(even, 2));
    EXPECT_FALSE(layout.holds(even, 3));
    EXPECT_EQ(layout.parameters_of(0), (std::vector<ParameterIndex>{0}));
    EXPECT_EQ(layout.parameters_of(3), (std::vector<ParameterIndex>{1, 2}));
    EXPECT_EQ(layout.bytes_of(3), 64U + 96U);
    ASSERT_EQ(layout.pieces_of(kA).size(), 3U);
    EXPECT_EQ(layout.pieces_of(kA)[2].parameter, 2U);
    ASSERT_EQ(layout.pieces_of(kB).size(), 1U);
    EXPECT_EQ(layout.pieces_of(kB)[0].piece, 1U);
    EXPECT_TRUE(layout.pieces_of(kBias).empty());
    EXPECT_EQ(layout.engine_of(2), 0);
    EXPECT_EQ(layout.engine_of(3), 1);
    EXPECT_EQ(layout.engine_rank_of(2), 2);
    EXPECT_EQ(layout.engine_rank_of(3), 0);
}

TEST(LayoutBuilder, refuses_wrong_content) {
    const struct {
        const char* name;
        std::function<Parameter()> make;
        const char* message;
    } rows[] = {
        {"hole",
         [] {
             Parameter p = whole_a();
             p.shape = {{5, 8, 0}, 2};
             return p;
         },
         "layout parameter a: pieces and padding cover 64 of its 80 bytes"},
        {"beyond the end",
         [] {
             Parameter p = whole_a();
             p.pieces[0].offset = 16;
             return p;
         },
         "ends beyond the parameter's 64 bytes"},
        {"overflowing offset",
         [] {
             Parameter p = whole_a();
             p.pieces[0].offset = ~Bytes{0} - 8;
             return p;
         },
         "ends beyond the parameter's 64 bytes"},
        {"overflowing pitch",
         [] {
             Parameter p = whole_a();
             p.pieces[0].pitch = ~Bytes{0} / 2;
             return p;
         },
         "ends beyond the parameter's 64 bytes"},
        {"twice the same bytes",
         [] {
             Parameter p = whole_a();
             p.pieces = {{kA, {{0, 2}, {0, 8}}, 0, 16}, {kA, {{1, 3}, {0, 8}}, 16, 16}};
             return p;
         },
         "piece 1 (a) overlaps piece 0 (a)"},
        {"more than all",
         [] {
             Parameter p = whole_a();
             p.pieces.push_back(p.pieces[0]);
             return p;
         },
         "sum to more than 64 bytes"},
        {"overlapping padding",
         [] {
             Parameter p = whole_a();
             p.pieces[0].box.rows = {0, 2};
             p.padding = {{16, 16, 2, 16}};
             return p;
         },
         "padding 0 overlaps piece 0 (a)"},
        {"empty padding",
         [] {
             Parameter p = whole_a();
             p.padding = {{0, 0, 0, 0}};
             return p;
         },
         "padding 0 is empty"},
        {"outside the tensor",
         [] {
             Parameter p = whole_a();
             p.pieces[0].box.rows = {1, 5};
             return p;
         },
         "has box [[1, 5], [0, 8]] outside its tensor of 4 x 8"},
        {"empty box",
         [] {
             Parameter p = whole_a();
             p.pieces[0].box.rows = {2, 2};
             return p;
         },
         "piece 0 (a) has an empty box"},
        {"unknown tensor",
         [] {
             Parameter p = whole_a();
             p.pieces[0].tensor = 3;
             return p;
         },
         "piece 0 is of tensor number 3, but the model has 3"},
        {"other dtype",
         [] {
             Parameter p = whole_a();
             p.dtype = DType::F16;
             return p;
         },
         "piece 0 (a) is bf16, the parameter fp16"},
        {"pitch below the row",
         [] {
             Parameter p = whole_a();
             p.pieces[0].pitch = 8;
             return p;
         },
         "has pitch 8 below its row of 16 bytes"},
        {"no shape",
         [] {
             Parameter p = whole_a();
             p.shape = {};
             return p;
         },
         "shape has 0 dimensions"},
        {"zero size",
         [] {
             Parameter p = whole_a();
             p.shape.sizes[1] = 0;
             return p;
         },
         "shape has a dimension of 0"},
        {"size overflow",
         [] {
             Parameter p = whole_a();
             p.shape.sizes[0] = std::uint64_t{1} << 62;
             return p;
         },
         "does not fit in 64 bits"},
        {"strided overlap",
         [] {
             Parameter p = side_by_side();
             p.pieces[1].offset = 14;
             return p;
         },
         "piece 1 (b) overlaps piece 0 (a)"},
        {"strided overlap by rows",
         [] {
             Parameter p = side_by_side();
             p.shape = {{5, 12, 0}, 2};
             p.pieces[1] = {kB, {{0, 4}, {0, 4}}, 24, 24};
             return p;
         },
         "piece 1 (b) overlaps piece 0 (a)"},
        {"run across a strided piece",
         [] {
             Parameter p = side_by_side();
             p.pieces.pop_back();
             p.padding = {{40, 32, 1, 32}};
             return p;
         },
         "padding 0 overlaps piece 0 (a)"},
        {"two pitches",
         [] {
             Parameter p = side_by_side();
             p.pieces[1] = {kB, {{0, 2}, {0, 4}}, 16, 32};
             return p;
         },
         "strided pieces of one parameter must share one pitch"},
        {"strided across row boundaries",
         [] {
             Parameter p = side_by_side();
             p.pieces[1] = {kB, {{0, 3}, {0, 4}}, 20, 24};
             return p;
         },
         "crosses the row boundaries of its pitch 24"},
    };
    for (const auto& row : rows) {
        SCOPED_TRACE(row.name);
        EXPECT_REFUSAL(finish({row.make()}), row.message);
    }
}

TEST(LayoutBuilder, refuses_two_parameters_of_one_name_on_one_rank) {
    LayoutBuilder builder(Side::Trainer, "test", 4);
    const RankSetId low = builder.rank_set({0, 1}), high = builder.rank_set({2, 3});
    const RankSetId middle = builder.rank_set({1, 2});
    const auto with = [&](std::vector<RankSetId> sets) {
        LayoutBuilder copy = builder;
        for (const RankSetId set : sets) copy.add(whole_a(set));
        return std::move(copy).finish(tiny_model());
    };
    EXPECT_NO_THROW((void)with({low, high}));
    EXPECT_REFUSAL(with({low, middle}), "layout parameter a: rank 1 has two of this name");
    EXPECT_REFUSAL(with({low, high, high}), "layout parameter a: rank 2 has two of this name");
}

TEST(LayoutBuilder, refuses_bad_ranks_and_engines) {
    LayoutBuilder trainer(Side::Trainer, "test", 4);
    EXPECT_REFUSAL(trainer.rank_set({}), "held by no rank");
    EXPECT_REFUSAL(trainer.rank_set({0, 4}),
                   "4 is out of place; they must ascend and lie in [0, 4)");
    EXPECT_REFUSAL(trainer.rank_set({-1}), "-1 is out of place");
    EXPECT_REFUSAL(trainer.rank_set({1, 1}), "1 is out of place");
    EXPECT_REFUSAL(trainer.rank_set({2, 1}), "1 is out of place");
    EXPECT_REFUSAL(LayoutBuilder(Side::Trainer, "test", 0), "world_size=0 must be positive");
    EXPECT_REFUSAL((trainer.begin_engine(0), 0), "a trainer has no engines");
    LayoutBuilder rollout(Side::Rollout, "test", 4);
    EXPECT_REFUSAL((rollout.begin_engine(1), 0), "1 is not in [0, 0]");
    rollout.begin_engine(0);
    EXPECT_REFUSAL((rollout.begin_engine(0), 0), "0 is not in [1, 3]");
    EXPECT_REFUSAL((rollout.begin_engine(4), 0), "4 is not in [1, 3]");
    EXPECT_REFUSAL(LayoutBuilder(Side::Rollout, "test", 4).finish(tiny_model()),
                   "needs an engine that starts at 0");
}

TEST(LayoutDigest, tells_every_field_apart) {
    std::vector<std::uint64_t> digests;
    const auto add = [&](const std::function<void(Parameter&)>& change) {
        Parameter p = side_by_side();
        change(p);
        digests.push_back(finish({p}, 2).digest());
    };
    add([](Parameter&) {});
    add([](Parameter& p) { p.name = "ba"; });
    add([](Parameter& p) { p.format = "packed"; });
    add([](Parameter& p) { p.shape = {{48, 0, 0}, 1}; });
    add([](Parameter& p) { p.shape = {{12, 4, 0}, 2}; });
    add([](Parameter& p) { std::swap(p.pieces[0], p.pieces[1]); });
    add([](Parameter& p) {
        p.pieces[0].offset = 8;
        p.pieces[1].offset = 0;
    });
    add([](Parameter& p) {
        p.pieces.pop_back();
        p.padding = {{16, 24, 4, 8}};
    });
    const Layout other_world = finish({side_by_side()}, 3);
    digests.push_back(other_world.digest());
    LayoutBuilder builder(Side::Trainer, "test", 2);
    Parameter held_elsewhere = side_by_side();
    held_elsewhere.ranks = builder.rank_set({1});
    builder.add(held_elsewhere);
    digests.push_back(std::move(builder).finish(tiny_model()).digest());
    for (std::size_t i = 0; i < digests.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) EXPECT_NE(digests[i], digests[j]) << i << " " << j;
}

}  // namespace
}  // namespace weightlift::layout
