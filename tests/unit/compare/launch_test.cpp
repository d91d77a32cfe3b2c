#include "weightlift/compare/launch.hpp"

#include <gtest/gtest.h>

namespace weightlift::compare {
namespace {

/// A case of one rank whose pushes took so long.
record::CaseRecord pushed(const std::string& options, const std::vector<std::uint64_t>& times_ns) {
    record::CaseRecord one;
    one.info.key = "k";
    one.info.options = options;
    for (const std::uint64_t time : times_ns) {
        record::Sample sample;
        sample.warmup = one.samples.empty();
        sample.time_ns = time;
        sample.rank_time_ns = {time};
        record::PhaseTimes phases;
        phases.fill(record::kNotMeasured);
        phases[static_cast<std::size_t>(record::Phase::Post)] = time - 1;
        sample.phase_ns = {phases};
        one.samples.push_back(sample);
    }
    return one;
}

record::RunRecord run_of(std::vector<record::CaseRecord> cases) {
    record::RunRecord run;
    run.run.ranks.resize(1);
    run.cases = std::move(cases);
    return run;
}

TEST(Launch, has_medians_of_counted_iterations) {
    record::RunRecord run = run_of({pushed("{}", {900, 10, 30, 20, 800, 40})});
    run.cases[0].samples[4].validity = record::Validity::Wrong;
    const auto launches = launches_of(run);
    ASSERT_EQ(launches.size(), 1U);
    EXPECT_EQ(launches[0].name, "k");
    EXPECT_EQ(launches[0].time_ns(), 20U);  // of 10 20 30 40, by nearest rank
    EXPECT_EQ(launches[0].summary.wrong, 1U);
    EXPECT_EQ(launches[0].phases.at(0)[static_cast<std::size_t>(record::Phase::Post)], 19U);
    EXPECT_EQ(launches[0].phases.at(0)[static_cast<std::size_t>(record::Phase::Wire)],
              record::kNotMeasured);
}

TEST(Launch, takes_repetitions_within_one_run_as_one) {
    const auto launches = launches_of(
        run_of({pushed("{}", {0, 10, 20}), pushed("{}", {0, 30}), pushed("{}", {0, 40, 50})}));
    ASSERT_EQ(launches.size(), 1U);
    EXPECT_EQ(launches[0].summary.iterations, 5U);
    EXPECT_EQ(launches[0].time_ns(), 30U);
}

TEST(Launch, tells_cases_of_one_key_apart_by_what_a_sweep_varied) {
    const auto launches =
        launches_of(run_of({pushed(R"({"window_bytes":1,"order":"plan"})", {0, 10}),
                            pushed(R"({"window_bytes":2,"order":"plan"})", {0, 20}),
                            pushed(R"({"window_bytes":1,"order":"plan"})", {0, 30})}));
    ASSERT_EQ(launches.size(), 2U);
    EXPECT_EQ(launches[0].name, "k [window_bytes 1]");
    EXPECT_EQ(launches[0].summary.iterations, 2U);
    EXPECT_EQ(launches[1].name, "k [window_bytes 2]");
}

}  // namespace
}  // namespace weightlift::compare
