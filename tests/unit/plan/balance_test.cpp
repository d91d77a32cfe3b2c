// How well the planner levels the sources of configurations that people run.
#include <algorithm>
#include <map>
#include <ostream>
#include <set>

#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"
#include "weightlift/plan/statistics.hpp"

#include "support/shipped_models.hpp"

namespace weightlift::plan {
namespace {

using layout::RolloutConfig;
using layout::TrainerConfig;

using Demand = std::map<std::vector<Rank>, double>;

/// Bytes asked for by the set of trainers that hold them: from the layouts, not from the planner.
Demand demand_by_holders(const Layout& trainer, const Layout& rollout) {
    Demand demand;
    for (const auto& parameter : rollout.parameters())
        for (const auto& piece : parameter.pieces) {
            std::set<std::uint64_t> rows{piece.box.rows.begin, piece.box.rows.end};
            std::set<std::uint64_t> columns{piece.box.columns.begin, piece.box.columns.end};
            const auto refs = trainer.pieces_of(piece.tensor);
            const auto piece_of = [&](const layout::PieceRef& ref) -> const layout::Piece& {
                return trainer.parameter(ref.parameter).pieces[ref.piece];
            };
            for (const auto& ref : refs) {
                const Box common = intersect(piece_of(ref).box, piece.box);
                if (common.empty()) continue;
                rows.insert({common.rows.begin, common.rows.end});
                columns.insert({common.columns.begin, common.columns.end});
            }
            for (auto r = rows.begin(); std::next(r) != rows.end(); ++r)
                for (auto c = columns.begin(); std::next(c) != columns.end(); ++c) {
                    const Box cell{{*r, *std::next(r)}, {*c, *std::next(c)}};
                    std::set<Rank> holders;
                    for (const auto& ref : refs)
                        if (piece_of(ref).box.contains(cell)) {
                            const auto ranks =
                                trainer.rank_set(trainer.parameter(ref.parameter).ranks);
                            holders.insert(ranks.begin(), ranks.end());
                        }
                    demand[{holders.begin(), holders.end()}] +=
                        static_cast<double>(cell.elements() * element_bytes(parameter.dtype)) *
                        static_cast<double>(rollout.rank_set(parameter.ranks).size());
                }
        }
    return demand;
}

/// A lower bound of the busiest source's load under any plan: what only a set of sources can serve,
/// divided by their number, over the sets {sources with at least so much load}. Where the loads are
/// optimal, one of these sets proves it (linear-programming duality).
double lower_bound(const Demand& demand, const std::vector<Bytes>& sent, Rank trainers) {
    std::vector<Rank> by_load;
    for (Rank r = 0; r < trainers; ++r) by_load.push_back(r);
    std::stable_sort(by_load.begin(), by_load.end(), [&](Rank a, Rank b) {
        return sent[static_cast<std::size_t>(a)] > sent[static_cast<std::size_t>(b)];
    });
    std::vector<std::size_t> position(by_load.size());
    for (std::size_t i = 0; i < by_load.size(); ++i)
        position[static_cast<std::size_t>(by_load[i])] = i;
    // A group is served by the first n of this order alone where its last holder is among them.
    std::vector<double> only(by_load.size(), 0);
    for (const auto& [holders, bytes] : demand) {
        std::size_t last = 0;
        for (const Rank r : holders) last = std::max(last, position[static_cast<std::size_t>(r)]);
        only[last] += bytes;
    }
    double bound = 0, sum = 0;
    for (std::size_t n = 0; n < only.size(); ++n) {
        sum += only[n];
        bound = std::max(bound, sum / static_cast<double>(n + 1));
    }
    return bound;
}

struct Scenario {
    const char* name;
    const char* model;
    std::uint64_t layers;
    TrainerConfig trainer;
    std::vector<RolloutConfig> rollout;
    Bytes minimum_slice = 256 * KiB;
};
std::ostream& operator<<(std::ostream& out, const Scenario& row) { return out << row.name; }

class Balance : public testing::TestWithParam<Scenario> {};

TEST_P(Balance, the_busiest_source_is_within_5_percent_of_the_optimum) {
    const Scenario& row = GetParam();
    const auto model = test::shipped_model(row.model, row.layers);
    const Layout trainer = layout::make_megatron_layout(model, row.trainer);
    const Layout rollout = layout::make_sglang_layout(model, row.rollout);
    const Planner planner(model, trainer, rollout,
                          {.minimum_slice = row.minimum_slice, .place = {}, .node = {}});
    const PlanStatistics stats = gather_statistics(planner);
    const Demand demand = demand_by_holders(trainer, rollout);
    double total = 0;
    for (const auto& [holders, bytes] : demand) total += bytes;
    ASSERT_EQ(static_cast<double>(stats.bytes), total);

    const auto busiest =
        static_cast<double>(stats.sent[static_cast<std::size_t>(stats.busiest_sender())]);
    const double bound = lower_bound(demand, stats.sent, planner.trainers());
    RecordProperty("busiest_over_optimum", std::to_string(busiest / bound));
    EXPECT_LE(busiest, 1.05 * bound)
        << busiest / 1e6 << " MB, at least " << bound / 1e6 << " MB under any plan";
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, Balance,
    testing::Values(
        Scenario{"qwen3_4b_tied_over_even_stages",
                 "qwen3-4b",
                 8,
                 {.tp = 2, .pp = 2},
                 {{.tp = 2, .engines = 2}}},
        Scenario{"qwen3_4b_tied_over_uneven_stages",
                 "qwen3-4b",
                 8,
                 {.tp = 2, .pp = 2, .last_pipeline_layers = 2},
                 {{.tp = 2}}},
        Scenario{"qwen3_4b_tied_last_stage_long",
                 "qwen3-4b",
                 12,
                 {.tp = 2, .pp = 2, .last_pipeline_layers = 10},
                 {{.tp = 4}}},
        Scenario{"qwen3_4b_tied_whole", "qwen3-4b", 0, {.tp = 1, .pp = 2}, {{.tp = 2}}},
        Scenario{"qwen3_4b_tied_three_stages",
                 "qwen3-4b",
                 9,
                 {.tp = 2, .cp = 2, .pp = 3, .first_pipeline_layers = 2, .last_pipeline_layers = 1},
                 {{.tp = 2, .engines = 3}}},
        Scenario{"qwen3_4b_context_parallel",
                 "qwen3-4b",
                 6,
                 {.tp = 2, .cp = 2},
                 {{.tp = 2, .engines = 2}}},
        Scenario{"qwen3_8b_data_parallel", "qwen3-8b", 4, {.tp = 1, .dp = 8}, {{.tp = 8}}},
        Scenario{"moonlight_tp8_tp16", "moonlight-16b-a3b", 4, {.tp = 8}, {{.tp = 16}}},
        Scenario{"moonlight_ep8",
                 "moonlight-16b-a3b",
                 4,
                 {.tp = 2, .ep = 8, .etp = 1, .dp = 4},
                 {{.tp = 8, .ep = 8}}},
        Scenario{"qwen3_30b",
                 "qwen3-30b-a3b",
                 4,
                 {.tp = 4, .ep = 8, .etp = 1, .dp = 4},
                 {{.tp = 8, .ep = 8, .engines = 2}}},
        Scenario{"glm_air_uneven_stages",
                 "glm-4.5-air",
                 10,
                 {.tp = 1, .ep = 8, .pp = 4, .etp = 1, .dp = 8, .last_pipeline_layers = 1},
                 {{.tp = 8, .ep = 8, .engines = 4}}},
        Scenario{
            "qwen3_235b_uneven_stages",
            "qwen3-235b-a22b",
            8,
            {.tp = 4, .cp = 2, .ep = 16, .pp = 4, .etp = 1, .dp = 2, .last_pipeline_layers = 2},
            {{.tp = 32, .ep = 32, .engines = 2}}},
        Scenario{"deepseek_v3_attention_dp",
                 "deepseek-v3",
                 5,
                 {.tp = 4, .ep = 8, .etp = 1, .dp = 4},
                 {{.tp = 16, .ep = 16, .attn_dp = 16, .moe_dense_tp = 1}}},
        Scenario{"two_groups_of_engines",
                 "moonlight-16b-a3b",
                 3,
                 {.tp = 4, .ep = 4, .etp = 1, .dp = 2},
                 {{.tp = 8, .ep = 8}, {.tp = 2}}}),
    testing::PrintToStringParamName());

// The largest run published, here at 2 bytes per element.
TEST(KimiK2, from_256_to_256_ranks_has_the_known_totals) {
    const auto model = test::shipped_model("kimi-k2");
    const Layout trainer = layout::make_megatron_layout(
        model, layout::parse_trainer("tp=8,pp=8,cp=4,ep=32,etp=1,last-pipeline-layers=5"));
    const std::vector<RolloutConfig> groups{
        layout::parse_rollout("tp=32,ep=32,attn-dp=8,moe-dense-tp=1,engines=8")};
    const Layout rollout = layout::make_sglang_layout(model, groups);
    const PlanStatistics stats = gather_statistics(Planner(model, trainer, rollout));
    const auto busiest = stats.sent[static_cast<std::size_t>(stats.busiest_sender())];
    EXPECT_NEAR(static_cast<double>(stats.bytes) / 1e12, 17.9, 0.05);
    EXPECT_NEAR(static_cast<double>(busiest) / 1e9, 75.4, 0.05);
    EXPECT_EQ(stats.port_bytes(), busiest);
    EXPECT_NEAR(static_cast<double>(stats.port_bytes()) / 50e9, 1.508, 0.001);
    // Receivers and the middle stages, as published at half the element size.
    const auto most_received = stats.received[static_cast<std::size_t>(stats.busiest_receiver())];
    EXPECT_NEAR(static_cast<double>(most_received) / 50e9, 2 * 0.698, 0.002);
    EXPECT_LE(static_cast<double>(busiest),
              1.05 * lower_bound(demand_by_holders(trainer, rollout), stats.sent, 256));
}

}  // namespace
}  // namespace weightlift::plan
