// Configurations that are well-formed but impossible for a model.
#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"

#include "models.hpp"
#include "refused.hpp"

namespace weightlift::layout {
namespace {

struct Row {
    const char* name;
    model::Architecture architecture;
    const char* config;
    const char* message;
};

model::Architecture twenty_heads() {  // GLM-4.7-Flash
    model::Architecture a = truncated(moonlight(), 2);
    a.heads = 20;
    return a;
}
model::Architecture with_mtp(model::Architecture a) {
    a.mtp_layers = 1;
    return a;
}
model::Architecture narrow_dense() {
    model::Architecture a = truncated(qwen3_4b(), 1);
    a.intermediate_size = 9;
    return a;
}
model::Architecture uneven_qkv() {  // (4 + 2*1) * 3 = 18 rows
    model::Architecture a = truncated(qwen3_4b(), 1);
    a.heads = 4;
    a.grouped->kv_heads = 1;
    a.grouped->head_dim = 3;
    return a;
}

TEST(MegatronLayout, refuses_what_cannot_be) {
    const Row rows[] = {
        {"heads", twenty_heads(), "tp=16", "trainer tp=16 does not divide 20 attention heads"},
        {"kv heads", truncated(glm_4_5_air(), 1), "tp=3",
         "trainer tp=3 neither divides 8 key-value heads nor is a multiple"},
        {"qkv rows", uneven_qkv(), "tp=4", "trainer tp=4 does not divide 18 rows of linear_qkv"},
        {"dense MLP", narrow_dense(), "tp=2", "trainer tp=2 does not divide 9 (intermediate_size)"},
        {"experts", truncated(moonlight(), 2), "ep=3", "trainer ep=3 does not divide 64 routed"},
        {"more ranks than experts", truncated(moonlight(), 2), "ep=128",
         "trainer ep=128 does not divide 64 routed experts"},
        {"expert width", truncated(moonlight(), 2), "etp=3",
         "trainer etp=3 does not divide 1408 (moe_intermediate_size)"},
        {"no experts", truncated(qwen3_4b(), 1), "ep=2",
         "trainer ep=2 needs routed experts, but a qwen3 model has 0"},
        {"stages", kimi_k2(), "pp=8", "trainer pp=8 does not divide 61 layers"},
        {"stages that do not add up", kimi_k2(), "pp=8,last-pipeline-layers=4",
         "leave 57 of 61 layers, which 7 other stages do not divide"},
        {"virtual stages", truncated(kimi_k2(), 6), "pp=2,vpp=2",
         "trainer vpp=2 does not divide 3 layers per stage"},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        const ModelSpec model = make_model(row.architecture);
        EXPECT_REFUSAL(make_megatron_layout(model, parse_trainer(row.config)), row.message);
    }
}

TEST(MegatronLayout, refuses_shared_experts_and_mtp_that_tp_does_not_divide) {
    model::Architecture a = truncated(deepseek_v3(), 4);
    a.heads = 3 * 128;
    a.intermediate_size = 3 * 18432;
    EXPECT_REFUSAL(make_megatron_layout(make_model(a), parse_trainer("tp=3,etp=1")),
                   "trainer tp=3 does not divide 2048 (intermediate size of the shared experts)");
    a.experts->shared = 3;
    EXPECT_REFUSAL(make_megatron_layout(make_model(with_mtp(a)), parse_trainer("tp=3,etp=1")),
                   "trainer tp=3 does not divide 7168 (hidden_size, the rows of eh_proj)");
}

TEST(SglangLayout, refuses_what_cannot_be) {
    const Row rows[] = {
        {"heads", twenty_heads(), "tp=16", "rollout tp=16 does not divide 20 attention heads"},
        {"heads over attention tp", twenty_heads(), "tp=32,attn-dp=4",
         "rollout attn-tp = tp/attn-dp = 32/4 = 8 does not divide 20 attention heads"},
        {"kv heads", truncated(glm_4_5_air(), 1), "tp=3",
         "rollout tp=3 neither divides 8 key-value heads nor is a multiple"},
        {"dense MLP", narrow_dense(), "tp=2", "rollout tp=2 does not divide 9 (intermediate_size)"},
        {"vocabulary", truncated(qwen3_4b(), 1), "tp=256,attn-dp=256",
         "rollout tp=256 does not divide 151936 vocabulary rows (padded to 64)"},
        {"more ranks than experts", truncated(deepseek_v3(), 4),
         "tp=512,attn-dp=8,ep=512,dp-lm-head=1",
         "rollout tp=512 is greater than 256 routed experts"},
        {"experts", truncated(glm_4_5(), 4), "tp=64,ep=64,attn-dp=2",
         "rollout ep=64 does not divide 160 routed experts"},
        {"no experts", truncated(qwen3_4b(), 1), "tp=2,ep=2",
         "rollout ep=2 needs routed experts, but a qwen3 model has 0"},
        {"more stages than layers", truncated(moonlight(), 2), "pp=3",
         "rollout pp=3 is greater than 2 layers"},
        {"two shared experts fused", truncated(moonlight(), 2), "fuse-shared-experts=1",
         "fuse-shared-experts=1 needs 1 shared expert, but the model has 2"},
        {"no shared expert to fuse", truncated(qwen3_30b(), 1), "fuse-shared-experts=1",
         "needs 1 shared expert, but the model has 0"},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        const ModelSpec model = make_model(row.architecture);
        const RolloutConfig config = parse_rollout(row.config);
        EXPECT_REFUSAL(make_sglang_layout(model, std::span(&config, 1)), row.message);
    }
}

TEST(SglangLayout, refuses_widths_of_experts_that_moe_tp_or_tp_does_not_divide) {
    model::Architecture a = truncated(deepseek_v3(), 4);
    a.experts->intermediate_size = 12;
    const RolloutConfig routed = parse_rollout("tp=8");
    EXPECT_REFUSAL(make_sglang_layout(make_model(a), std::span(&routed, 1)),
                   "rollout moe-tp = tp/ep = 8/1 = 8 does not divide 12 (moe_intermediate_size)");
    const RolloutConfig shared = parse_rollout("tp=8,ep=2");
    EXPECT_REFUSAL(make_sglang_layout(make_model(a), std::span(&shared, 1)),
                   "rollout tp=8 does not divide 12 (intermediate size of the shared experts)");
}

TEST(Rules, check_configurations_made_in_code_too) {
    const ModelSpec model = make_model(truncated(moonlight(), 2));
    EXPECT_REFUSAL(make_megatron_layout(model, TrainerConfig{.tp = -2}), "trainer tp=-2 must be");
    TrainerConfig zero_dp;
    zero_dp.dp = 0;
    EXPECT_REFUSAL(make_megatron_layout(model, zero_dp), "trainer dp=0 must be");
    const RolloutConfig huge{.tp = 1'000'000, .pp = 1'000'000};
    EXPECT_REFUSAL(make_sglang_layout(model, std::span(&huge, 1)), "above the limit");
    const RolloutConfig zero{.attn_dp = 0};
    EXPECT_REFUSAL(make_sglang_layout(model, std::span(&zero, 1)), "rollout attn-dp=0 must be");
    EXPECT_REFUSAL(make_sglang_layout(model, {}), "no group of engines");
    const std::vector<RolloutConfig> many(2, RolloutConfig{.engines = 600'000});
    EXPECT_REFUSAL(make_sglang_layout(model, many), "1200000 ranks or more, above the limit");
}

TEST(Rules, need_an_architecture) {
    const ModelSpec bare("bare", {{"a", DType::BF16, 2, 2, 2}}, std::nullopt);
    const RolloutConfig rollout;
    EXPECT_REFUSAL(make_megatron_layout(bare, {}), "model bare is a bare list of tensors");
    EXPECT_REFUSAL(make_sglang_layout(bare, std::span(&rollout, 1)), "bare list of tensors");
}

}  // namespace
}  // namespace weightlift::layout
