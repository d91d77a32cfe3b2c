#include "weightlift/layout/parallel_config.hpp"

#include <gtest/gtest.h>

#include "refused.hpp"

namespace weightlift::layout {
namespace {

TEST(TrainerConfig, fills_defaults) {
    const TrainerConfig config = parse_trainer("tp=8");
    EXPECT_EQ(config.tp, 8);
    EXPECT_EQ(config.cp * config.ep * config.pp * config.vpp, 1);
    EXPECT_EQ(config.expert_tp(), 8);
    EXPECT_EQ(config.dp, 1);
    EXPECT_EQ(config.world_size(), 8);
    EXPECT_EQ(parse_trainer("pp=2").tp, 1);
}

TEST(TrainerConfig, takes_the_smallest_legal_data_parallelism) {
    const struct {
        const char* text;
        int dp, world;
    } rows[] = {
        {"tp=2,ep=8,etp=1", 4, 8},
        {"tp=8,etp=1", 1, 8},
        {"tp=4,pp=4,cp=2,ep=16,etp=1", 2, 64},
        {"tp=8,pp=8,cp=4,ep=32,etp=1", 1, 256},
        {"tp=3,ep=2,etp=1", 2, 6},
        {"tp=1,pp=4,ep=8,etp=1", 8, 32},
        {"tp=2,ep=2", 2, 4},
        {"tp=2,etp=4", 2, 4},
    };
    for (const auto& row : rows) {
        EXPECT_EQ(parse_trainer(row.text).dp, row.dp) << row.text;
        EXPECT_EQ(parse_trainer(row.text).world_size(), row.world) << row.text;
    }
}

TEST(TrainerConfig, takes_data_parallelism_from_world_or_launched_ranks) {
    EXPECT_EQ(parse_trainer("tp=2,pp=2,world=16").dp, 4);
    EXPECT_EQ(parse_trainer("tp=2,pp=2,dp=4,world=16").dp, 4);
    EXPECT_EQ(parse_trainer("tp=2,pp=2,dp=auto", 12).dp, 3);
    EXPECT_EQ(parse_trainer("dp=auto,world=12,tp=2", 12).dp, 6);
    EXPECT_EQ(parse_trainer("tp=2,dp=3", 100).dp, 3) << "launched matters to dp=auto only";
}

TEST(TrainerConfig, refuses_bad_text) {
    const struct {
        const char* text;
        const char* message;
    } rows[] = {
        {"", "trainer is empty"},
        {"tp", "'tp' is not of the form key=value"},
        {"tp=", "'tp=' is not of the form key=value"},
        {"=2", "'=2' is not of the form key=value"},
        {"tp=2,", "'' is not of the form key=value"},
        {"tp=2,tp=2", "key 'tp' is given twice"},
        {"tpp=2", "key 'tpp' is unknown; the nearest is 'tp'"},
        {"last-pipeline-layer=2", "nearest is 'last-pipeline-layers'"},
        {"account_for_loss=1", "nearest is 'account-for-loss'"},
        {"attn-dp=2", "key 'attn-dp' is unknown"},
        {"tp=0", "trainer tp=0 must be an integer from 1 to 1000000"},
        {"cp=-1", "trainer cp=-1 must be an integer"},
        {"pp=2x", "trainer pp=2x must be an integer"},
        {"ep= 2", "trainer ep= 2 must be an integer"},
        {"tp=99999999999", "trainer tp=99999999999 must be an integer"},
        {"account-for-loss=2", "account-for-loss=2 must be an integer from 0 to 1"},
        {"first-pipeline-layers=0", "first-pipeline-layers=0 must be an integer from 1"},
        {"tp=auto", "trainer tp=auto must be an integer"},
        {"dp=auto", "dp=auto needs launched ranks"},
        {"tp=1000,cp=1000,pp=1000", "= 1000 x 1000 x 1000 is above the limit of 1000000 ranks"},
        {"tp=1000,dp=1001", "is above the limit of 1000000 ranks"},
        {"etp=100000,ep=100000", "is above the limit of 1000000 ranks"},
    };
    for (const auto& row : rows) EXPECT_REFUSAL(parse_trainer(row.text), row.message);
}

TEST(TrainerConfig, refuses_worlds_that_do_not_divide) {
    EXPECT_REFUSAL(parse_trainer("tp=2,pp=2,world=6"),
                   "world=6 is not a multiple of tp x cp x pp = 2 x 1 x 2 = 4");
    EXPECT_REFUSAL(parse_trainer("tp=2,pp=2,dp=2,world=16"),
                   "world=16 differs from tp x cp x pp x dp = 2 x 1 x 2 x 2 = 8");
    EXPECT_REFUSAL(parse_trainer("tp=8,dp=auto", 20),
                   "dp=auto with 20 launched ranks is not a multiple of tp x cp x pp = 8 x 1 x 1");
    EXPECT_REFUSAL(parse_trainer("tp=8,dp=auto,world=8", 16), "world=8 differs from");
    EXPECT_REFUSAL(parse_trainer("tp=2,dp=2,ep=8,etp=1"),
                   "world = tp x cp x pp x dp = 2 x 1 x 1 x 2 = 4 is not a multiple of etp x ep x "
                   "pp = 1 x 8 x 1 = 8");
    EXPECT_REFUSAL(parse_trainer("tp=2,ep=8,etp=1,world=12"), "= 12 is not a multiple of etp");
    EXPECT_REFUSAL(parse_trainer("dp=auto", 0), "must be an integer from 1");
}

TEST(TrainerConfig, prints_canonically_and_reads_back_equal) {
    const struct {
        const char* text;
        const char* canonical;
    } rows[] = {
        {"pp=1", "tp=1"},
        {"tp=8,etp=8,dp=1,vpp=1,account-for-loss=0", "tp=8"},
        {"etp=1,ep=8,tp=2,dp=4", "tp=2,ep=8,etp=1"},
        {"tp=2,ep=8,etp=1,world=16", "tp=2,ep=8,etp=1,dp=8"},
        {"tp=8,pp=8,cp=4,ep=32,etp=1,last-pipeline-layers=5",
         "tp=8,cp=4,ep=32,pp=8,etp=1,last-pipeline-layers=5"},
        {"vpp=2,pp=2,account-for-loss=1,account-for-embedding=1,first-pipeline-layers=4",
         "tp=1,pp=2,vpp=2,first-pipeline-layers=4,account-for-embedding=1,account-for-loss=1"},
    };
    for (const auto& row : rows) {
        const TrainerConfig config = parse_trainer(row.text);
        EXPECT_EQ(to_string(config), row.canonical);
        EXPECT_EQ(parse_trainer(to_string(config)), config) << row.text;
    }
}

TEST(RolloutConfig, fills_defaults_and_takes_dp_for_attn_dp) {
    const RolloutConfig config = parse_rollout("tp=8,dp=4,engines=3,pp=2");
    EXPECT_EQ(config.attn_dp, 4);
    EXPECT_EQ(config.attention_tp(), 2);
    EXPECT_EQ(config.dense_tp(), 8);
    EXPECT_EQ(config.engine_size(), 16);
    EXPECT_EQ(config.world_size(), 48);
    EXPECT_EQ(parse_rollout("tp=8,attn-dp=4,engines=3,pp=2"), config);
    EXPECT_FALSE(config.dp_lm_head || config.fuse_shared_experts);
    EXPECT_EQ(parse_rollout("tp=8,ep=4").moe_tp(), 2);
}

TEST(RolloutConfig, refuses_bad_text) {
    const struct {
        const char* text;
        const char* message;
    } rows[] = {
        {"", "rollout is empty"},
        {"tp=4,cp=2", "rollout key 'cp' is unknown"},
        {"engine=2", "nearest is 'engines'"},
        {"dp=2,attn-dp=2,tp=4", "dp is another name of attn-dp"},
        {"engines=0", "rollout engines=0 must be an integer"},
        {"tp=8,ep=3", "rollout ep=3 does not divide tp=8"},
        {"tp=8,attn-dp=3", "rollout attn-dp=3 does not divide tp=8"},
        {"tp=8,ep=16", "rollout ep=16 does not divide tp=8"},
        {"tp=8,moe-dense-tp=4", "rollout moe-dense-tp=4 must be 1 or tp=8"},
        {"tp=8,ep=2,fuse-shared-experts=1", "fuse-shared-experts=1 needs ep=1, not ep=2"},
        {"tp=1000,engines=1001", "1000 x 1 x 1001 is above the limit of 1000000 ranks"},
    };
    for (const auto& row : rows) EXPECT_REFUSAL(parse_rollout(row.text), row.message);
}

TEST(RolloutConfig, prints_canonically_and_reads_back_equal) {
    const struct {
        const char* text;
        const char* canonical;
    } rows[] = {
        {"tp=4,moe-dense-tp=4,engines=1,dp=1", "tp=4"},
        {"tp=32,ep=32,attn-dp=8,moe-dense-tp=1,engines=8",
         "tp=32,ep=32,engines=8,attn-dp=8,moe-dense-tp=1"},
        {"fuse-shared-experts=1,dp-lm-head=1,dp=2,pp=2,tp=2",
         "tp=2,pp=2,attn-dp=2,dp-lm-head=1,fuse-shared-experts=1"},
    };
    for (const auto& row : rows) {
        const RolloutConfig config = parse_rollout(row.text);
        EXPECT_EQ(to_string(config), row.canonical);
        EXPECT_EQ(parse_rollout(to_string(config)), config) << row.text;
    }
}

}  // namespace
}  // namespace weightlift::layout
