// Totals of published configurations, as known from their papers and threads.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"

#include "models.hpp"

namespace weightlift::layout {
namespace {

struct Row {
    const char* name;
    model::Architecture architecture;
    const char* rollout;
    double gigabytes_per_rank;
    double tolerance;
    double gigabytes;  ///< of all ranks
};

TEST(SglangLayout, receives_the_published_bytes_per_rank) {
    const Row rows[] = {
        {"Moonlight", moonlight(), "tp=8,ep=8", 4.05, 0.005, 32.4},
        {"Qwen3-30B", qwen3_30b(), "tp=8,ep=8,engines=2", 7.68, 0.005, 122.9},
        {"GLM-4.5-Air", glm_4_5_air(), "tp=8,ep=8,engines=4", 26.76, 0.005, 856},
        {"Qwen3-235B", qwen3_235b(), "tp=32,ep=32,engines=2", 14.96, 0.005, 958},
        {"DeepSeek-V3", deepseek_v3(), "tp=16,ep=16", 85.8, 0.05, 1373},
        // Published with a whole embedding per rank; ours is cut over attention tp = 8.
        {"GLM-4.5", glm_4_5(), "tp=32,ep=32,dp=4,dp-lm-head=1,engines=2",
         26.2 - 151552.0 * 5120 * 2 * 7 / 8 / 1e9, 0.05,
         1676 - 64 * 151552.0 * 5120 * 2 * 7 / 8 / 1e9},
    };
    for (const Row& row : rows) {
        const ModelSpec model = make_model(row.architecture);
        const RolloutConfig config = parse_rollout(row.rollout);
        const Layout layout = make_sglang_layout(model, std::span(&config, 1));
        Bytes sum = 0;
        for (Rank rank = 0; rank < layout.world_size(); ++rank) {
            const Bytes bytes = layout.bytes_of(rank);
            sum += bytes;
            EXPECT_NEAR(static_cast<double>(bytes) / 1e9, row.gigabytes_per_rank, row.tolerance)
                << row.name << " rank " << rank;
        }
        EXPECT_NEAR(static_cast<double>(sum) / 1e9, row.gigabytes, row.gigabytes * 2e-3)
            << row.name;
    }
}

TEST(MegatronLayout, holds_each_parameter_once_per_copy) {
    // Without data parallelism, replicated tensors or vocabulary padding, ranks add up to the
    // model.
    model::Architecture a = truncated(qwen3_30b(), 2);
    a.vocab_size = 1024;
    const ModelSpec model = make_model(a);
    const Layout whole = make_megatron_layout(model, parse_trainer("tp=1"));
    EXPECT_EQ(whole.bytes_of(0), model.bytes());

    const Layout staged = make_megatron_layout(model, parse_trainer("pp=2"));
    EXPECT_EQ(staged.bytes_of(0) + staged.bytes_of(1), model.bytes());

    const Layout cut = make_megatron_layout(model, parse_trainer("tp=4"));
    const Bytes replicated =
        2 * (2 * (2 * 2048 + 2 * 128 + 128 * 2048) + 2048);  // norms, q/k norms, router; final norm
    EXPECT_EQ(4 * (cut.bytes_of(0) - replicated) + replicated, model.bytes());
}

TEST(Layouts, of_a_trillion_parameters_stay_small) {
    const ModelSpec model = make_model(kimi_k2());
    const Layout trainer = make_megatron_layout(
        model, parse_trainer("tp=8,pp=8,cp=4,ep=32,etp=1,last-pipeline-layers=5"));
    const RolloutConfig config = parse_rollout("tp=32,ep=32,attn-dp=8,moe-dense-tp=1,engines=8");
    const Layout rollout = make_sglang_layout(model, std::span(&config, 1));
    EXPECT_EQ(trainer.world_size(), 256);
    EXPECT_EQ(rollout.world_size(), 256);
    // Distinct shards, not ranks x parameters.
    EXPECT_LT(trainer.parameters().size(), 50'000U);
    EXPECT_LT(rollout.parameters().size(), 9'000U);
    EXPECT_LT(trainer.rank_set_count(), 400U);
    EXPECT_LT(rollout.rank_set_count(), 40U);
}

}  // namespace
}  // namespace weightlift::layout
