// jobs/models/ against the published parameter counts, to the unit.
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "weightlift/model/config.hpp"

namespace weightlift::model {
namespace {

struct Published {
    const char* name;
    std::uint64_t parameters;      ///< without MTP
    std::uint64_t routed_experts;  ///< of which
    std::uint64_t mtp_core;        ///< 0: the model has none
    std::uint64_t with_repeated;  ///< a checkpoint that repeats embedding and head in its MTP layer
};

std::ostream& operator<<(std::ostream& out, const Published& model) { return out << model.name; }

constexpr Published kPublished[] = {
    {"deepseek-v2-lite", 15'706'484'224, 14'394'851'328, 0, 0},
    {"moonlight-16b-a3b", 15'960'110'208, 14'394'851'328, 0, 0},
    {"deepseek-v3", 671'026'419'200, 653'908'770'816, 11'610'068'224, 684'489'845'504},
    {"kimi-k2", 1'026'408'232'448, 1'014'686'023'680, 0, 0},
    {"qwen3-4b", 4'022'468'096, 0, 0, 0},
    {"qwen3-8b", 8'190'735'360, 0, 0, 0},
    {"qwen3-30b-a3b", 30'532'122'624, 28'991'029'248, 0, 0},
    {"qwen3-235b-a22b", 235'093'634'560, 227'096'395'776, 0, 0},
    {"glm-4.5-air", 106'852'251'264, 99'656'663'040, 2'375'059'584, 110'468'824'832},
    {"glm-4.5", 352'797'829'024, 335'963'750'400, 3'988'069'792, 358'337'791'296},
};

ParsedModel load(const std::string& name, ConfigOptions options = {}) {
    const std::string path = WEIGHTLIFT_SOURCE_DIR "/jobs/models/" + name + ".json";
    std::ifstream file(path);
    EXPECT_TRUE(file) << path;
    std::ostringstream text;
    text << file.rdbuf();
    options.name = name;
    return parse_config(text.str(), options);
}

class PublishedModel : public testing::TestWithParam<Published> {};

TEST_P(PublishedModel, has_its_published_parameters) {
    const ParsedModel model = load(GetParam().name);
    EXPECT_EQ(model.spec.parameter_count(), GetParam().parameters);
    EXPECT_EQ(model.spec.name(), GetParam().name);
    EXPECT_TRUE(model.notes.empty()) << model.notes.front();
}

TEST_P(PublishedModel, has_its_published_routed_experts) {
    const ParsedModel model = load(GetParam().name);
    std::uint64_t routed = 0;
    for (const TensorSpec& tensor : model.spec.tensors())
        if (tensor.name.find(".mlp.experts.") != std::string::npos) routed += tensor.elements();
    EXPECT_EQ(routed, GetParam().routed_experts);
}

TEST_P(PublishedModel, has_bf16_weights_and_float32_buffers) {
    const ParsedModel model = load(GetParam().name);
    std::uint64_t buffers = 0;
    for (const TensorSpec& tensor : model.spec.tensors()) {
        const bool is_buffer = tensor.name.ends_with(".e_score_correction_bias");
        EXPECT_EQ(tensor.dtype, is_buffer ? DType::F32 : DType::BF16) << tensor.name;
        if (is_buffer) buffers += tensor.elements();
    }
    EXPECT_EQ(model.spec.bytes(), 2 * GetParam().parameters + 2 * buffers);
}

TEST_P(PublishedModel, has_its_published_mtp_core) {
    const ConfigOptions with_mtp{.with_mtp = true};
    if (GetParam().mtp_core == 0) {
        EXPECT_THROW((void)load(GetParam().name, with_mtp), ConfigError);
        return;
    }
    const ParsedModel model = load(GetParam().name, with_mtp);
    const std::uint64_t total = model.spec.parameter_count();
    EXPECT_EQ(total - GetParam().parameters, GetParam().mtp_core);
    const Architecture& a = *model.spec.architecture();
    EXPECT_EQ(total + 2 * a.vocab_size * a.hidden_size, GetParam().with_repeated);
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedModel, testing::ValuesIn(kPublished),
                         [](const auto& model) {
                             std::string name = model.param.name;
                             for (char& c : name)
                                 if (c == '-' || c == '.') c = '_';
                             return name;
                         });

TEST(PublishedModels, have_the_known_numbers_of_tensors) {
    // A dense layer: 2 norms, 7 of attention, 3 of the MLP. Another: 14 and three per expert.
    EXPECT_EQ(load("kimi-k2").spec.tensors().size(), 12U + 60U * (14U + 3U * 384U) + 3U);
    EXPECT_EQ(load("qwen3-4b").spec.tensors().size(), 36U * 11U + 2U);
}

TEST(PublishedModels, are_the_architectures_that_the_layout_rules_know) {
    const ParsedModel v3 = load("deepseek-v3", {.with_mtp = true});
    const Architecture& deepseek = *v3.spec.architecture();
    EXPECT_EQ(deepseek.model_type, "deepseek_v3");
    EXPECT_EQ(deepseek.dense_layers, 3U);
    EXPECT_EQ(deepseek.mtp_layers, 1U);
    EXPECT_FALSE(deepseek.is_moe_layer(2));
    EXPECT_TRUE(deepseek.is_moe_layer(3));
    EXPECT_TRUE(deepseek.is_moe_layer(61));
    EXPECT_EQ(deepseek.latent->q_lora_rank, 1536U);
    EXPECT_FALSE(deepseek.grouped.has_value());

    const ParsedModel lite = load("deepseek-v2-lite");
    EXPECT_FALSE(lite.spec.architecture()->latent->q_lora_rank.has_value());
    EXPECT_FALSE(lite.spec.architecture()->experts->has_score_bias);

    const ParsedModel four_b = load("qwen3-4b");
    const Architecture& qwen = *four_b.spec.architecture();
    EXPECT_TRUE(qwen.tied_embeddings);
    EXPECT_EQ(qwen.dense_layers, qwen.layers);
    EXPECT_FALSE(qwen.experts.has_value());
    EXPECT_FALSE(qwen.is_moe_layer(0));
}

TEST(TinyDeepseek, is_small_and_divides_as_tests_of_sharding_need) {
    const ParsedModel model = load("tiny-deepseek", {.with_mtp = true});
    EXPECT_GE(model.spec.bytes(), 2'000'000U);
    EXPECT_LE(model.spec.bytes(), 10'000'000U);

    const Architecture& a = *model.spec.architecture();
    EXPECT_EQ(a.model_type, "deepseek_v3");
    ASSERT_TRUE(a.latent && a.latent->q_lora_rank && a.experts);
    EXPECT_TRUE(a.experts->has_score_bias);
    EXPECT_EQ(a.experts->shared, 1U);
    EXPECT_EQ(a.mtp_layers, 1U);
    EXPECT_EQ(a.dense_layers, 2U);
    EXPECT_EQ(a.layers % 4, 0U);
    EXPECT_EQ(a.heads % 16, 0U);
    EXPECT_EQ(a.intermediate_size % 16, 0U);
    EXPECT_EQ(a.experts->routed % 16, 0U);
    EXPECT_EQ(a.experts->intermediate_size % 16, 0U);
    EXPECT_EQ(a.hidden_size % 16, 0U);
    EXPECT_NE(a.vocab_size % 64, 0U);
    for (const std::uint64_t tp : {1U, 2U, 4U, 8U})
        EXPECT_NE(round_up(a.vocab_size, 64), round_up(a.vocab_size, 128 * tp)) << tp;
}

}  // namespace
}  // namespace weightlift::model
