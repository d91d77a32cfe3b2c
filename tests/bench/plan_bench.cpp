// The planner on the largest example of the design: Kimi-K2 from 256 trainers to 256 rollouts.
// Claims: one rank's own part in 100 ms, the summary of the whole plan in 5 s and 1 GiB.
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include <benchmark/benchmark.h>

#include "weightlift/layout/rules.hpp"
#include "weightlift/model/config.hpp"
#include "weightlift/plan/planner.hpp"
#include "weightlift/plan/statistics.hpp"

namespace {

using namespace weightlift;

const model::ModelSpec& kimi_k2() {
    static const model::ModelSpec spec = [] {
        std::ifstream file(WEIGHTLIFT_SOURCE_DIR "/jobs/models/kimi-k2.json");
        const std::string text(std::istreambuf_iterator<char>(file), {});
        return model::parse_config(text, {.name = "kimi-k2"}).spec;
    }();
    return spec;
}

layout::Layout trainer_layout() {
    return layout::make_megatron_layout(
        kimi_k2(), layout::parse_trainer("tp=8,pp=8,cp=4,ep=32,etp=1,last-pipeline-layers=5"));
}

layout::Layout rollout_layout() {
    const auto group = layout::parse_rollout("tp=32,ep=32,attn-dp=8,moe-dense-tp=1,engines=8");
    return layout::make_sglang_layout(kimi_k2(), {&group, 1});
}

/// Planner and the two layouts it refers to.
struct Plan {
    layout::Layout trainer = trainer_layout();
    layout::Layout rollout = rollout_layout();
    plan::Planner planner{kimi_k2(), trainer, rollout};
};

/// The process's peak of resident memory since the last reset, in bytes.
double peak_resident_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string key; status >> key;)
        if (double kib = 0; key == "VmHWM:" && status >> kib) return kib * 1024;
    throw std::runtime_error("/proc/self/status has no VmHWM");
}

void reset_peak_resident() { std::ofstream("/proc/self/clear_refs") << 5 << std::flush; }

std::size_t own_part(const plan::Planner& planner, Rank rank) {
    return planner.received_by(rank).size() + planner.sent_by(rank).size();
}

void bench_trainer_layout(benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(trainer_layout().digest());
}

void bench_rollout_layout(benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(rollout_layout().digest());
}

void bench_planner(benchmark::State& state) {
    const layout::Layout trainer = trainer_layout();
    const layout::Layout rollout = rollout_layout();
    for (auto _ : state)
        benchmark::DoNotOptimize(plan::Planner(kimi_k2(), trainer, rollout).world_size());
}

/// One rank of either side, the planner being there.
void bench_own_part(benchmark::State& state) {
    const Plan plan;
    const auto rank = static_cast<Rank>(state.range(0));
    std::size_t transfers = 0;
    for (auto _ : state) transfers = own_part(plan.planner, rank);
    state.counters["transfers"] = static_cast<double>(transfers);
}

/// What a rank does at start-up: both layouts, the planner, and its own part.
void bench_own_part_from_scratch(benchmark::State& state) {
    const auto rank = static_cast<Rank>(state.range(0));
    for (auto _ : state) {
        const Plan plan;
        benchmark::DoNotOptimize(own_part(plan.planner, rank));
    }
}

void bench_plan_summary(benchmark::State& state) {
    reset_peak_resident();
    plan::PlanStatistics statistics;
    for (auto _ : state) {
        const Plan plan;
        statistics = plan::gather_statistics(plan.planner);
    }
    state.counters["transfers"] = static_cast<double>(statistics.transfers);
    state.counters["peak_resident"] = benchmark::Counter(
        peak_resident_bytes(), benchmark::Counter::kDefaults, benchmark::Counter::kIs1024);
}

/// Start-up of a rollout rank by the number of engines, a rank each of 32 on 256 trainers.
void bench_rollout_part_by_engines(benchmark::State& state) {
    const auto group =
        layout::parse_rollout("tp=32,ep=32,engines=" + std::to_string(state.range(0)));
    for (auto _ : state) {
        const layout::Layout trainer = trainer_layout();
        const layout::Layout rollout = layout::make_sglang_layout(kimi_k2(), {&group, 1});
        const plan::Planner planner(kimi_k2(), trainer, rollout);
        benchmark::DoNotOptimize(planner.received_by(planner.trainers()).size());
    }
}

void ranks_of_both_sides(benchmark::internal::Benchmark* bench) {
    for (const int rank : {0, 130, 255, 256, 400, 511}) bench->Arg(rank);
}

}  // namespace

BENCHMARK(bench_trainer_layout)->Unit(benchmark::kMillisecond);
BENCHMARK(bench_rollout_layout)->Unit(benchmark::kMillisecond);
BENCHMARK(bench_planner)->Unit(benchmark::kMillisecond);
BENCHMARK(bench_own_part)->Apply(ranks_of_both_sides)->Unit(benchmark::kMillisecond);
BENCHMARK(bench_own_part_from_scratch)->Arg(0)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(bench_rollout_part_by_engines)
    ->RangeMultiplier(2)
    ->Range(8, 128)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(bench_plan_summary)->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK_MAIN();
