#include <numeric>

#include <gtest/gtest.h>

#include "weightlift/record/run_record.hpp"

namespace weightlift::record {
namespace {

Sample measured(std::uint64_t time_ns, std::vector<std::uint64_t> rank_time_ns = {}) {
    Sample sample;
    sample.time_ns = time_ns;
    sample.validity = Validity::Valid;
    sample.rank_time_ns = std::move(rank_time_ns);
    return sample;
}

Sample warmup(std::uint64_t time_ns) {
    Sample sample = measured(time_ns);
    sample.warmup = true;
    return sample;
}

Sample wrong(std::uint64_t time_ns) {
    Sample sample = measured(time_ns);
    sample.validity = Validity::Wrong;
    return sample;
}

std::vector<Sample> times_from_1_to(std::uint64_t n) {
    std::vector<Sample> samples;
    for (std::uint64_t i = n; i >= 1; --i) samples.push_back(measured(i));
    return samples;
}

TEST(Summarize, names_each_phase) {
    EXPECT_EQ(to_string(Phase::Prepare), "prepare");
    EXPECT_EQ(to_string(Phase::SourceBusy), "source_busy");
    EXPECT_EQ(to_string(Phase::Cpu), "cpu");
    EXPECT_EQ(to_string(SetupPhase::Plan), "plan");
    EXPECT_EQ(to_string(SetupPhase::Exchange), "exchange");
}

TEST(Summarize, gives_nearest_rank_percentiles) {
    struct Row {
        const char* name;
        std::uint64_t samples, p50, p99;
    };
    // p = value number ceil(n * p / 100) of n ascending values 1, 2, … n
    const Row rows[] = {
        {.name = "one", .samples = 1, .p50 = 1, .p99 = kNotMeasured},
        {.name = "two", .samples = 2, .p50 = 1, .p99 = kNotMeasured},
        {.name = "odd", .samples = 5, .p50 = 3, .p99 = kNotMeasured},
        {.name = "even", .samples = 20, .p50 = 10, .p99 = kNotMeasured},
        {.name = "one short of p99", .samples = 99, .p50 = 50, .p99 = kNotMeasured},
        {.name = "just enough for p99", .samples = 100, .p50 = 50, .p99 = 99},
        {.name = "more", .samples = 250, .p50 = 125, .p99 = 248},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        const Summary summary = summarize({}, times_from_1_to(row.samples));
        EXPECT_EQ(summary.iterations, row.samples);
        EXPECT_EQ(summary.min_ns, 1U);
        EXPECT_EQ(summary.p50_ns, row.p50);
        EXPECT_EQ(summary.p99_ns, row.p99);
        EXPECT_EQ(summary.max_ns, row.samples);
        EXPECT_EQ(summary.first_ns, row.samples);
    }
}

TEST(Summarize, leaves_out_warmups_wrong_and_unmeasured_samples) {
    const Summary summary = summarize({}, {warmup(900), measured(30), wrong(1), measured(10),
                                           measured(kNotMeasured), measured(20)});
    EXPECT_EQ(summary.iterations, 3U);
    EXPECT_EQ(summary.wrong, 1U);
    EXPECT_EQ(summary.first_ns, 900U);
    EXPECT_EQ(summary.min_ns, 10U);
    EXPECT_EQ(summary.p50_ns, 20U);
    EXPECT_EQ(summary.max_ns, 30U);
}

TEST(Summarize, counts_a_wrong_warmup_as_wrong) {
    Sample bad = wrong(5);
    bad.warmup = true;
    EXPECT_EQ(summarize({}, {bad, measured(7)}).wrong, 1U);
}

TEST(Summarize, takes_unchecked_samples) {
    Sample unchecked = measured(7);
    unchecked.validity = Validity::Unchecked;
    EXPECT_EQ(summarize({}, {unchecked}).p50_ns, 7U);
}

TEST(Summarize, computes_bandwidth_at_the_median) {
    CaseInfo info;
    info.bytes = 31'412'968'448;
    info.port_bytes = 4'000'000'000;
    const Summary summary =
        summarize(info, {measured(50'000'000), measured(100'000'000), measured(900'000'000)});
    EXPECT_DOUBLE_EQ(summary.algbw, 314'129'684'480.0);
    EXPECT_DOUBLE_EQ(summary.portbw, 40'000'000'000.0);
}

TEST(Summarize, measures_nothing_when_nothing_is_valid) {
    CaseInfo info;
    info.bytes = info.port_bytes = 1000;
    for (const auto& samples : {std::vector<Sample>{}, {wrong(5), wrong(6)}, {warmup(9)}}) {
        const Summary summary = summarize(info, samples);
        EXPECT_EQ(summary.iterations, 0U);
        EXPECT_EQ(summary.first_ns, kNotMeasured);
        EXPECT_EQ(summary.min_ns, kNotMeasured);
        EXPECT_EQ(summary.p50_ns, kNotMeasured);
        EXPECT_EQ(summary.max_ns, kNotMeasured);
        EXPECT_EQ(summary.algbw, 0);
        EXPECT_EQ(summary.portbw, 0);
        EXPECT_EQ(summary.slowest_rank, -1);
    }
}

TEST(Summarize, names_the_rank_that_is_most_often_the_last) {
    constexpr std::uint64_t none = kNotMeasured;  // a trainer
    // medians (nearest rank): rank 1: 10, rank 2: 30, rank 3: 20; median of those: 20
    const Summary summary = summarize({}, {measured(30, {none, 10, 30, 20}),  //
                                           measured(31, {none, 10, 31, 21}),  //
                                           measured(40, {none, 40, 20, 20})});
    EXPECT_EQ(summary.slowest_rank, 2);
    EXPECT_EQ(summary.slowest_count, 2U);
    EXPECT_DOUBLE_EQ(summary.slowest_ratio, 1.5);
}

TEST(Summarize, names_no_slowest_rank_without_rank_times) {
    const Summary summary = summarize({}, {measured(3, {kNotMeasured, kNotMeasured})});
    EXPECT_EQ(summary.slowest_rank, -1);
    EXPECT_EQ(summary.slowest_count, 0U);
    EXPECT_EQ(summary.slowest_ratio, 0);
}

TEST(Summarize, ignores_the_ranks_of_wrong_samples) {
    Sample bad = wrong(90);
    bad.rank_time_ns = {90, 1};
    EXPECT_EQ(summarize({}, {bad, bad, measured(20, {10, 20})}).slowest_rank, 1);
}

}  // namespace
}  // namespace weightlift::record
