#include "weightlift/layout/layout_file.hpp"

#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"

#include "models.hpp"
#include "refused.hpp"

namespace weightlift::layout {
namespace {

TEST(LayoutFile, reads_back_equal) {
    model::Architecture glm = truncated(glm_4_5_air(), 3);
    glm.mtp_layers = 1;
    glm.vocab_size = 1000;  // both sides pad
    for (const model::Architecture& arch : {glm, truncated(moonlight(), 2)}) {
        const ModelSpec model = make_model(arch);
        const std::vector<RolloutConfig> groups = {parse_rollout("tp=4,engines=2"),
                                                   parse_rollout("tp=2,ep=2,attn-dp=2")};
        const Layout layouts[] = {make_megatron_layout(model, parse_trainer("tp=4,ep=2,etp=1")),
                                  make_sglang_layout(model, groups)};
        for (const Layout& layout : layouts) {
            const std::string text = emit_layout(layout, model);
            const Layout back = parse_layout(text, model);
            EXPECT_EQ(back.digest(), layout.digest());
            EXPECT_EQ(back.side(), layout.side());
            EXPECT_EQ(back.description(), layout.description());
            EXPECT_EQ(back.world_size(), layout.world_size());
            EXPECT_TRUE(std::equal(back.engine_begins().begin(), back.engine_begins().end(),
                                   layout.engine_begins().begin(), layout.engine_begins().end()));
            EXPECT_EQ(emit_layout(back, model), text);

            const ModelSpec bare = parse_layout_model(text);
            EXPECT_EQ(bare.name(), model.name());
            EXPECT_EQ(bare.tensors(), model.tensors());
            EXPECT_FALSE(bare.architecture());
            EXPECT_EQ(parse_layout(text, bare).digest(), layout.digest());
        }
    }
}

const std::string kText = R"({"schema": "weightlift-layout/1", "side": "rollout",
 "description": "by hand", "model": "tiny", "world_size": 2, "engine_begins": [0, 1],
 "tensors": [{"name": "a", "dtype": "bf16", "shape": [4, 8]},
             {"name": "n", "dtype": "float32", "shape": [3]}],
 "parameters": [
  {"name": "p", "shape": [5, 8], "dtype": "bf16", "format": "blocked", "ranks": [0, 1],
   "pieces": [{"tensor": "a", "box": [[0, 4], [0, 8]], "offset": 0, "pitch": 16}],
   "padding": [{"offset": 64, "pitch": 16, "rows": 1, "row_bytes": 16}]},
  {"name": "n", "shape": [3], "dtype": "fp32", "ranks": [1],
   "pieces": [{"tensor": "n", "box": [[0, 1], [0, 3]], "offset": 0, "pitch": 12}]}]})";

TEST(LayoutFile, reads_what_was_written_by_hand) {
    const ModelSpec model = parse_layout_model(kText);
    ASSERT_EQ(model.tensors().size(), 2U);
    EXPECT_EQ(model.tensor(1).dimensions, 1);
    EXPECT_EQ(model.tensor(1).dtype, DType::F32);
    const Layout layout = parse_layout(kText, model);
    EXPECT_EQ(layout.side(), Side::Rollout);
    EXPECT_EQ(layout.description(), "by hand");
    EXPECT_EQ(layout.engine_of(1), 1);
    ASSERT_EQ(layout.parameters().size(), 2U);
    const Parameter& p = layout.parameter(0);
    EXPECT_EQ(p.format, "blocked");
    EXPECT_EQ(p.shape, (Shape{{5, 8, 0}, 2}));
    EXPECT_EQ(p.pieces, (std::vector<Piece>{{0, {{0, 4}, {0, 8}}, 0, 16}}));
    EXPECT_EQ(p.padding, (std::vector<Padding>{{64, 16, 1, 16}}));
    EXPECT_EQ(layout.parameter(1).format, "plain");
    EXPECT_EQ(layout.bytes_of(0), 80U);
    EXPECT_EQ(layout.bytes_of(1), 92U);
}

TEST(LayoutFile, refuses_wrong_fields_naming_their_place) {
    const struct {
        const char* name;
        std::string from, to, message;
    } rows[] = {
        {"not JSON", "\"tiny\"", "tiny", "layout file is not JSON, at byte"},
        {"schema", "layout/1", "layout/2", "root.schema is 'weightlift-layout/2', not"},
        {"side", "\"rollout\"", "\"engine\"", "root.side is 'engine', not trainer or rollout"},
        {"unknown field", "\"side\"", "\"sides\"", "root has unknown field 'sides'"},
        {"missing field", "\"model\": \"tiny\",", "", "root lacks field 'model'"},
        {"type", "\"tiny\"", "7", "root.model must be a string"},
        {"world", "\"world_size\": 2", "\"world_size\": 0", "world_size=0 must be positive"},
        {"huge world", "\"world_size\": 2", "\"world_size\": 3000000000",
         "root.world_size is 3000000000, above the limit of 1000000 ranks"},
        {"negative", "\"world_size\": 2", "\"world_size\": -2",
         "root.world_size must be a whole number, not negative"},
        {"fraction", "\"offset\": 64", "\"offset\": 6.4",
         "parameters[0] (p).padding[0].offset must be a whole number"},
        {"engines", "[0, 1],\n \"tensors\"", "[1],\n \"tensors\"", "engine_begins: 1 is not in"},
        {"trainer with engines", "\"rollout\"", "\"trainer\"", "engine_begins must be [0] for a"},
        {"dtype", "float32", "int8", "root.tensors[1].dtype is 'int8', not one of bf16"},
        {"tensor of three dimensions", "[4, 8]}", "[4, 8, 1]}",
         "root.tensors[0].shape must have one or two dimensions"},
        {"no name", "{\"name\": \"p\"", "{\"name\": \"\"", ".name must not be empty"},
        {"shape", "\"shape\": [5, 8]", "\"shape\": [1, 1, 5, 8]",
         "parameters[0] (p).shape must have one to three dimensions"},
        {"ranks", "\"ranks\": [0, 1]", "\"ranks\": [1, 0]",
         "parameters[0] (p).ranks is refused: layout ranks: 0 is out of place"},
        {"holder out of range", "\"ranks\": [1]", "\"ranks\": [2]", "lie in [0, 2)"},
        {"no holder", "\"ranks\": [1]", "\"ranks\": []", "held by no rank"},
        {"tensor", "{\"tensor\": \"n\"", "{\"tensor\": \"m\"",
         "parameters[1] (n).pieces[0].tensor is 'm', which is not a tensor of the model"},
        {"box", "[[0, 1], [0, 3]]", "[[0, 1]]", "pieces[0].box must be [[row, row], [column"},
        {"interval", "[[0, 1], [0, 3]]", "[[0, 1], [0]]", "pieces[0].box[1] must be [begin, end]"},
        {"misspelt", "\"padding\"", "\"paddings\"",
         "parameters[0] (p) has unknown field 'paddings' (fields: name shape"},
        {"content", "\"rows\": 1", "\"rows\": 2", "layout parameter p: padding 0 at offset 64"},
    };
    const ModelSpec model = parse_layout_model(kText);
    for (const auto& row : rows) {
        SCOPED_TRACE(row.name);
        std::string text = kText;
        const std::size_t at = text.find(row.from);
        ASSERT_NE(at, std::string::npos);
        text.replace(at, row.from.size(), row.to);
        EXPECT_REFUSAL(parse_layout(text, parse_layout_model(text)), row.message);
    }
    EXPECT_REFUSAL(parse_layout("[]", model), "root must be an object");
}

TEST(LayoutFile, refuses_tensors_that_are_not_the_models) {
    const ModelSpec other("other", {{"a", DType::BF16, 2, 8, 4}, {"n", DType::F32, 1, 1, 3}},
                          std::nullopt);
    EXPECT_REFUSAL(parse_layout(kText, other),
                   "root.tensors[0] (a) is 4 x 8 bf16, but 8 x 4 bf16 in model other");
    const ModelSpec lacking("lacking", {{"a", DType::BF16, 2, 4, 8}}, std::nullopt);
    EXPECT_REFUSAL(parse_layout(kText, lacking),
                   "root.tensors[1] (n) is not a tensor of model lacking");
}

}  // namespace
}  // namespace weightlift::layout
