// Fingerprints of real memory, summed as the session does it, with made-up layouts.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "weightlift/base/values.hpp"
#include "weightlift/session/fingerprints.hpp"

#include "support/hand_layouts.hpp"
#include "support/random_layouts.hpp"

namespace weightlift::session {
namespace {

using layout::Layout;
using layout::Side;
using test::hand_layout;
using test::hand_model;
using test::HandShard;
using test::matrix;
using test::vector_of;

constexpr std::uint64_t kVersion = 3;

/// All ranks of both sides, filled as after a right push.
class Ranks {
public:
    Ranks(const model::ModelSpec& model, const Layout& trainer, const Layout& rollout)
        : table_(model, trainer, rollout) {
        for (const Layout* layout : {&trainer, &rollout})
            for (Rank r = 0; r < layout->world_size(); ++r) {
                auto& store =
                    stores_.emplace_back(std::make_unique<WeightStore>(model, *layout, r));
                store->allocate();
                store->arena().fill(store->blocks(), kVersion);
            }
        trainers_ = static_cast<std::size_t>(trainer.world_size());
    }

    WeightStore& trainer(std::size_t rank) { return *stores_[rank]; }
    WeightStore& rollout(std::size_t rank) { return *stores_[trainers_ + rank]; }
    [[nodiscard]] const FingerprintTable& table() const { return table_; }

    [[nodiscard]] std::vector<std::uint64_t> slots() const {
        std::vector<std::uint64_t> total(table_.slots(), 0);
        for (const auto& store : stores_) {
            std::vector<std::uint64_t> sums(store->blocks().size(), 0);
            store->arena().fingerprint(store->blocks(), sums);
            table_.add(*store, sums, total);
        }
        return total;
    }
    [[nodiscard]] std::map<std::string, record::FingerprintRow> rows() const {
        std::map<std::string, record::FingerprintRow> rows;
        for (const auto& row : table_.compare(slots())) rows[row.tensor] = row;
        return rows;
    }

private:
    FingerprintTable table_;
    std::vector<std::unique_ptr<WeightStore>> stores_;
    std::size_t trainers_ = 0;
};

/// By the definition: sum over elements of (bits + 1) * R(row) * C(column), mod 2^64.
std::uint64_t fingerprint_of(const model::TensorSpec& tensor) {
    const std::uint64_t key = hash_name(tensor.name);
    std::uint64_t sum = 0;
    for (std::uint64_t r = 0; r < tensor.rows; ++r)
        for (std::uint64_t c = 0; c < tensor.columns; ++c)
            sum += (std::uint64_t{value_bits(tensor.dtype, value_row_key(key, r, kVersion),
                                             static_cast<std::uint32_t>(c))} +
                    1) *
                   row_fingerprint_key(key, r) * column_fingerprint_key(key, c);
    return sum;
}

TEST(FingerprintTable, gives_one_number_whatever_the_sharding) {
    const auto model =
        hand_model({matrix("t", 6, 8), vector_of("v", 7), matrix("w", 4, 4, DType::F32)});
    const Layout trainer = hand_layout(Side::Trainer, model, 2,
                                       {{"t", "t", {{0, 3}, {0, 8}}, {0}},
                                        {"t", "t", {{3, 6}, {0, 8}}, {1}},
                                        {"v", "v", {{0, 1}, {0, 7}}, {0, 1}},
                                        {"w", "w", {{0, 4}, {0, 4}}, {1}}});
    const Layout rollout = hand_layout(Side::Rollout, model, 3,
                                       {{"t", "t", {{0, 6}, {0, 1}}, {0}},
                                        {"t", "t", {{0, 2}, {1, 8}}, {1}},
                                        {"t", "t", {{2, 6}, {1, 8}}, {2}},
                                        {"v", "v", {{0, 1}, {0, 3}}, {2}},
                                        {"v", "v", {{0, 1}, {3, 7}}, {0}},
                                        {"w", "w", {{0, 4}, {0, 4}}, {0, 1, 2}}});
    const Ranks ranks(model, trainer, rollout);
    const auto rows = ranks.rows();
    ASSERT_EQ(rows.size(), 3U);
    for (const auto& tensor : model.tensors()) {
        const auto& row = rows.at(tensor.name);
        EXPECT_TRUE(row.equal) << tensor.name;
        EXPECT_EQ(row.trainer, fingerprint_of(tensor)) << tensor.name;
        EXPECT_EQ(row.rollout, row.trainer);
        EXPECT_EQ(row.engine, -1);
    }
    // t: 1 + 1, v: 2 + 1, w: 1 + 3 copies.
    EXPECT_EQ(ranks.table().slots(), 9U);
}

TEST(FingerprintTable, names_the_engine_of_the_one_copy_that_is_wrong) {
    // Three engines of two ranks; each rank of an engine holds half of t, and all of them v.
    const auto model = hand_model({matrix("t", 6, 8), vector_of("v", 7)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 1,
                    {{"t", "t", {{0, 6}, {0, 8}}, {0}}, {"v", "v", {{0, 1}, {0, 7}}, {0}}});
    const Layout rollout = hand_layout(Side::Rollout, model, 6,
                                       {{"t", "t", {{0, 6}, {0, 4}}, {0, 2, 4}},
                                        {"t", "t", {{0, 6}, {4, 8}}, {1, 3, 5}},
                                        {"v", "v", {{0, 1}, {0, 7}}, {0, 1, 2, 3, 4, 5}}},
                                       {0, 2, 4});
    for (std::size_t wrong = 0; wrong < 6; ++wrong) {
        Ranks ranks(model, trainer, rollout);
        const auto right = ranks.rows();
        ranks.rollout(wrong).arena().flip(5);  // in t
        auto rows = ranks.rows();
        EXPECT_FALSE(rows.at("t").equal);
        EXPECT_EQ(rows.at("t").engine, static_cast<int>(wrong / 2)) << "rank " << wrong;
        EXPECT_EQ(rows.at("t").trainer, right.at("t").trainer);
        EXPECT_NE(rows.at("t").rollout, right.at("t").trainer);
        EXPECT_TRUE(rows.at("v").equal);

        ranks.rollout(wrong).arena().flip(5);    // back
        ranks.rollout(wrong).arena().flip(256);  // in v
        rows = ranks.rows();
        EXPECT_TRUE(rows.at("t").equal);
        EXPECT_FALSE(rows.at("v").equal);
        EXPECT_EQ(rows.at("v").engine, static_cast<int>(wrong / 2)) << "rank " << wrong;
    }
}

TEST(FingerprintTable, sees_data_of_the_version_before) {
    const auto model = hand_model({matrix("t", 6, 8)});
    const std::vector<HandShard> whole{{"t", "t", {{0, 6}, {0, 8}}, {0}}};
    const Layout trainer = hand_layout(Side::Trainer, model, 1, whole);
    const Layout rollout = hand_layout(Side::Rollout, model, 1, whole);
    Ranks ranks(model, trainer, rollout);
    ranks.rollout(0).arena().fill(ranks.rollout(0).blocks(), kVersion - 1);
    EXPECT_FALSE(ranks.rows().at("t").equal);
}

TEST(FingerprintTable, sees_two_elements_that_changed_places) {
    const auto model = hand_model({matrix("t", 2, 2)});
    const std::vector<HandShard> whole{{"t", "t", {{0, 2}, {0, 2}}, {0}}};
    const Layout trainer = hand_layout(Side::Trainer, model, 1, whole);
    const Layout rollout = hand_layout(Side::Rollout, model, 1, whole);
    for (const std::size_t other : {1, 2, 3}) {
        Ranks ranks(model, trainer, rollout);
        std::byte* bytes = ranks.rollout(0).arena().data();
        std::swap_ranges(bytes, bytes + 2, bytes + 2 * other);
        EXPECT_FALSE(ranks.rows().at("t").equal) << "element 0 with " << other;
    }
}

TEST(FingerprintTable, reuses_a_shard_that_is_held_less_often) {
    // Rank 0 holds the left half for both copies of the right half.
    const auto model = hand_model({matrix("t", 6, 8)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 1, {{"t", "t", {{0, 6}, {0, 8}}, {0}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 3,
                    {{"t", "t", {{0, 6}, {0, 4}}, {0}}, {"t", "t", {{0, 6}, {4, 8}}, {1, 2}}});
    for (const std::size_t wrong : {0, 1, 2}) {
        Ranks ranks(model, trainer, rollout);
        EXPECT_EQ(ranks.table().slots(), 1U + 2U);
        EXPECT_TRUE(ranks.rows().at("t").equal);
        ranks.rollout(wrong).arena().flip(0);
        EXPECT_FALSE(ranks.rows().at("t").equal) << "rank " << wrong;
    }
}

// Key heads over four ranks, each held twice, in parameters that differ in what else they hold.
TEST(FingerprintTable, counts_holders_of_a_box_over_parameters) {
    const auto model = hand_model({matrix("k", 4, 8)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 1, {{"k", "k", {{0, 4}, {0, 8}}, {0}}});
    const Layout rollout = hand_layout(Side::Rollout, model, 4,
                                       {{"qkv", "k", {{0, 2}, {0, 8}}, {0}},
                                        {"qkv", "k", {{0, 2}, {0, 8}}, {1}},
                                        {"qkv", "k", {{2, 4}, {0, 8}}, {2}},
                                        {"qkv", "k", {{2, 4}, {0, 8}}, {3}}});
    for (std::size_t wrong = 0; wrong < 4; ++wrong) {
        Ranks ranks(model, trainer, rollout);
        EXPECT_EQ(ranks.table().slots(), 1U + 2U);
        EXPECT_TRUE(ranks.rows().at("k").equal);
        ranks.rollout(wrong).arena().flip(0);
        EXPECT_FALSE(ranks.rows().at("k").equal) << "rank " << wrong;
        EXPECT_EQ(ranks.rows().at("k").engine, 0);
    }
}

TEST(FingerprintTable, gives_each_group_of_engines_copies_of_its_own) {
    // Engine 0 holds t whole on rank 0, engine 1 in halves on ranks 1 and 2.
    const auto model = hand_model({matrix("t", 6, 8)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 1, {{"t", "t", {{0, 6}, {0, 8}}, {0}}});
    const Layout rollout = hand_layout(Side::Rollout, model, 3,
                                       {{"t", "t", {{0, 6}, {0, 8}}, {0}},
                                        {"t", "t", {{0, 6}, {0, 4}}, {1}},
                                        {"t", "t", {{0, 6}, {4, 8}}, {2}}},
                                       {0, 1});
    for (std::size_t wrong = 0; wrong < 3; ++wrong) {
        Ranks ranks(model, trainer, rollout);
        EXPECT_EQ(ranks.table().slots(), 1U + 1U + 1U);
        EXPECT_TRUE(ranks.table().uncovered(ranks.rollout(wrong)).empty());
        EXPECT_TRUE(ranks.rows().at("t").equal);
        ranks.rollout(wrong).arena().flip(0);
        EXPECT_FALSE(ranks.rows().at("t").equal);
        EXPECT_EQ(ranks.rows().at("t").engine, wrong == 0 ? 0 : 1);
    }
}

TEST(FingerprintTable, leaves_a_box_that_one_parameter_holds_twice_to_comparison) {
    const auto model = hand_model({matrix("t", 2, 8)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 1, {{"t", "t", {{0, 2}, {0, 8}}, {0}}});
    layout::LayoutBuilder builder(Side::Rollout, "by-hand", 1);
    builder.begin_engine(0);
    layout::Parameter twice;
    twice.name = "twice";
    twice.shape = {{4, 8, 0}, 2};
    twice.pieces = {{0, {{0, 2}, {0, 8}}, 0, 16}, {0, {{0, 2}, {0, 8}}, 32, 16}};
    twice.ranks = builder.rank_set({0});
    builder.add(std::move(twice));
    const Layout rollout = std::move(builder).finish(model);
    Ranks ranks(model, trainer, rollout);
    EXPECT_EQ(ranks.table().uncovered(ranks.rollout(0)), (std::vector<std::size_t>{0, 1}));
    EXPECT_TRUE(ranks.rows().empty());
}

TEST(FingerprintTable, keeps_a_tensor_under_two_names_as_two_families) {
    // A tied embedding: the trainers hold it as "embedding" and as "output", sharded differently.
    const auto model = hand_model({matrix("t", 6, 8)});
    const Layout trainer = hand_layout(Side::Trainer, model, 3,
                                       {{"embedding", "t", {{0, 6}, {0, 8}}, {0}},
                                        {"output", "t", {{0, 3}, {0, 8}}, {1}},
                                        {"output", "t", {{3, 6}, {0, 8}}, {2}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 2,
                    {{"embed", "t", {{0, 6}, {0, 8}}, {0}}, {"head", "t", {{0, 6}, {0, 8}}, {1}}});
    Ranks ranks(model, trainer, rollout);
    EXPECT_EQ(ranks.table().slots(), 4U);
    EXPECT_TRUE(ranks.rows().at("t").equal);
    EXPECT_TRUE(ranks.table().uncovered(ranks.rollout(1)).empty());

    ranks.rollout(1).arena().flip(0);
    EXPECT_FALSE(ranks.rows().at("t").equal);
    EXPECT_EQ(ranks.rows().at("t").engine, 0);
    ranks.rollout(1).arena().flip(0);

    // Trainers that disagree among themselves are no engine's fault, and not right either.
    ranks.trainer(2).arena().flip(0);
    EXPECT_FALSE(ranks.rows().at("t").equal);
    EXPECT_EQ(ranks.rows().at("t").engine, -1);
}

struct Uncovered {
    const char* name;
    std::vector<HandShard> trainer, rollout;
    std::vector<std::size_t> blocks_of_rank_0;
};

TEST(FingerprintTable, leaves_what_does_not_tile_to_a_comparison_of_elements) {
    const auto model = hand_model({matrix("t", 6, 8), vector_of("v", 7)});
    const HandShard v{"v", "v", {{0, 1}, {0, 7}}, {0, 1}};
    const HandShard whole{"t", "t", {{0, 6}, {0, 8}}, {0}};
    for (const Uncovered& row : {
             Uncovered{"overlapping shards of one area too many",
                       {whole, v},
                       {{"t", "t", {{0, 4}, {0, 8}}, {0}}, {"t", "t", {{2, 6}, {0, 8}}, {1}}, v},
                       {0}},
             {"overlap and hole of equal area",
              {whole, v},
              {{"t", "t", {{0, 3}, {0, 8}}, {0}}, {"t", "t", {{2, 5}, {0, 8}}, {1}}, v},
              {0}},
             {"ranks that shard differently",
              {whole, v},
              {{"t", "t", {{0, 6}, {0, 8}}, {0}}, {"t", "t", {{0, 6}, {0, 4}}, {1}}, v},
              {0}},
             {"a part only", {whole, v}, {{"t", "t", {{0, 3}, {0, 8}}, {0}}, v}, {0}},
             {"trainers that do not tile",
              {whole, {"t", "t", {{0, 3}, {0, 8}}, {1}}, v},
              {whole, v},
              {0}},
         }) {
        const Layout trainer = hand_layout(Side::Trainer, model, 2, row.trainer);
        const Layout rollout = hand_layout(Side::Rollout, model, 2, row.rollout);
        Ranks ranks(model, trainer, rollout);
        EXPECT_EQ(ranks.table().uncovered(ranks.rollout(0)), row.blocks_of_rank_0) << row.name;
        const auto rows = ranks.rows();
        EXPECT_FALSE(rows.contains("t")) << row.name;
        EXPECT_TRUE(rows.at("v").equal) << row.name;
    }
}

TEST(FingerprintTable, has_no_row_for_what_no_rollout_holds) {
    const auto model = hand_model({matrix("t", 6, 8), vector_of("v", 7)});
    const Layout trainer =
        hand_layout(Side::Trainer, model, 1,
                    {{"t", "t", {{0, 6}, {0, 8}}, {0}}, {"v", "v", {{0, 1}, {0, 7}}, {0}}});
    const Layout rollout =
        hand_layout(Side::Rollout, model, 1, {{"v", "v", {{0, 1}, {0, 7}}, {0}}});
    const Ranks ranks(model, trainer, rollout);
    const auto rows = ranks.rows();
    EXPECT_EQ(rows.size(), 1U);
    EXPECT_TRUE(rows.contains("v"));
}

class FingerprintLaws : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, FingerprintLaws, testing::Range<std::uint64_t>(1, 41));

TEST_P(FingerprintLaws, any_changed_byte_of_a_rollout_shows_or_is_compared_by_element) {
    test::Random random(GetParam());
    const auto model = test::random_model(random, 4, {1, 20}, {1, 12});
    const Layout trainer = test::random_layout(
        random, Side::Trainer, model, static_cast<Rank>(test::pick(random, 1, 4)), false, true);
    const Layout rollout = test::random_layout(random, Side::Rollout, model,
                                               static_cast<Rank>(test::pick(random, 1, 4)));
    Ranks ranks(model, trainer, rollout);
    for (const auto& [name, row] : ranks.rows()) EXPECT_TRUE(row.equal) << name;
    for (std::size_t r = 0; r < static_cast<std::size_t>(rollout.world_size()); ++r) {
        WeightStore& store = ranks.rollout(r);
        const auto uncovered = ranks.table().uncovered(store);
        const std::set<std::size_t> by_element(uncovered.begin(), uncovered.end());
        for (std::size_t b = 0; b < store.blocks().size(); ++b) {
            const auto& block = store.blocks()[b];
            const Bytes at = block.offset +
                             test::pick(random, 0, block.box.rows.size() - 1) * block.pitch +
                             test::pick(random, 0, 2 * block.box.columns.size() - 1);
            store.arena().flip(at);
            const auto ref = store.block_pieces()[b];
            const auto& piece = rollout.parameter(ref.parameter).pieces[ref.piece];
            const auto rows = ranks.rows();
            for (const auto& [name, row] : rows)
                EXPECT_EQ(row.equal,
                          by_element.contains(b) || name != model.tensor(piece.tensor).name)
                    << name;
            EXPECT_TRUE(by_element.contains(b) || rows.contains(model.tensor(piece.tensor).name));
            store.arena().flip(at);
        }
    }
}

}  // namespace
}  // namespace weightlift::session
