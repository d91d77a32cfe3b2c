#include "weightlift/compare/compare.hpp"

#include <functional>
#include <ostream>

#include <gtest/gtest.h>

#include "launches.hpp"

namespace weightlift::compare {
namespace {

using made_up::append;
using made_up::as_case;
using made_up::launch;
using made_up::side;

CaseResult only_case(const Comparison& comparison) {
    EXPECT_EQ(comparison.cases.size(), 1U);
    return comparison.cases.at(0);
}

ExitCode strictly(const Comparison& c) { return judge(c, MissingCases::Fail, Inconclusive::Fail); }
ExitCode mildly(const Comparison& c) { return judge(c, MissingCases::Fail, Inconclusive::Pass); }

std::string error_of(ExitCode code, const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
}

TEST(Compare, finds_a_slowdown_beyond_the_threshold_and_names_its_phase) {
    const Comparison comparison = compare(side("a", 5, 0.1, 12), side("b", 5, 1.4, 12), Options{});
    const CaseResult result = only_case(comparison);
    EXPECT_EQ(result.verdict, Verdict::Slower);
    EXPECT_NEAR(*result.p, 2.0 / 252, 1e-12);
    EXPECT_NEAR(*result.change(), 1.3 / 12.15, 0.002);
    ASSERT_FALSE(result.causes.empty());
    EXPECT_EQ(result.causes[0].rank, 0);
    EXPECT_EQ(result.causes[0].host, "n0");
    EXPECT_EQ(result.causes[0].phase, record::Phase::Post);
    EXPECT_NEAR(result.causes[0].base_ns, 0.1e6, 1);
    EXPECT_NEAR(result.causes[0].new_ns, 1.4e6, 1);
    EXPECT_EQ(result.new_slowest.rank, 2);
    EXPECT_EQ(result.new_slowest.host, "n7");
    EXPECT_EQ(mildly(comparison), ExitCode::Regression);
}

TEST(Compare, faster_is_no_failure) {
    const Comparison comparison = compare(side("a", 5, 1.4, 12), side("b", 5, 0.1, 12), Options{});
    EXPECT_EQ(only_case(comparison).verdict, Verdict::Faster);
    EXPECT_EQ(strictly(comparison), ExitCode::Ok);
}

TEST(Compare, slowdown_within_the_threshold_is_the_same_however_significant) {
    const Comparison comparison = compare(side("a", 8, 0.1, 12), side("b", 8, 0.4, 12), Options{});
    EXPECT_LT(*only_case(comparison).p, 0.01);
    EXPECT_EQ(only_case(comparison).verdict, Verdict::Same);
    Options sharper;
    sharper.threshold = 0.01;
    EXPECT_EQ(only_case(compare(side("a", 8, 0.1, 12), side("b", 8, 0.4, 12), sharper)).verdict,
              Verdict::Slower);
}

TEST(Compare, noise_that_could_hide_a_regression_is_inconclusive) {
    std::vector<Launch> base, next;
    for (const double ms : {10.0, 14.0, 11.0, 13.0, 12.0}) {
        base.push_back(launch("a" + std::to_string(ms), 0.1, ms));
        next.push_back(launch("b" + std::to_string(ms), 0.1, ms + 0.7));
    }
    const Comparison comparison = compare(base, next, Options{});
    EXPECT_EQ(only_case(comparison).verdict, Verdict::Inconclusive);
    EXPECT_NE(only_case(comparison).reason.find("too noisy"), std::string::npos);
    EXPECT_EQ(mildly(comparison), ExitCode::Ok);
    EXPECT_EQ(strictly(comparison), ExitCode::Regression);
}

TEST(Compare, fewer_than_four_launches_decide_nothing) {
    const CaseResult result =
        only_case(compare(side("a", 9, 0.1, 12), side("b", 3, 9, 12), Options{}));
    EXPECT_EQ(result.verdict, Verdict::Inconclusive);
    EXPECT_FALSE(result.p);
    EXPECT_EQ(result.reason, "3 against 9 launches: at least 4 a side are needed");
    EXPECT_EQ(only_case(compare(side("a", 4, 0.1, 12), side("b", 4, 9, 12), Options{})).verdict,
              Verdict::Slower);
}

TEST(Compare, holm_needs_more_launches_for_more_cases) {
    const auto verdicts = [](std::size_t cases, std::size_t launches) {
        std::vector<Launch> base, next;
        for (std::size_t i = 0; i < cases; ++i) {
            append(base, as_case(side("a", launches, 0.1, 12), "m" + std::to_string(i)));
            append(next, as_case(side("b", launches, 3, 12), "m" + std::to_string(i)));
        }
        return compare(base, next, Options{});
    };
    // 6 x 2/252 = 0.048, 7 x 2/252 = 0.056.
    for (const CaseResult& result : verdicts(6, 5).cases)
        EXPECT_EQ(result.verdict, Verdict::Slower) << result.reason;
    const Comparison seven = verdicts(7, 5);
    EXPECT_EQ(seven.cases.size(), 7U);
    for (const CaseResult& result : seven.cases) {
        EXPECT_EQ(result.verdict, Verdict::Inconclusive);
        EXPECT_EQ(result.reason,
                  "5 against 5 launches allow no p under 0.05 after Holm over 7 cases: 6 a side "
                  "are needed");
    }
    for (const CaseResult& result : verdicts(7, 6).cases)
        EXPECT_EQ(result.verdict, Verdict::Slower) << result.reason;
}

TEST(Compare, wrong_data_fails_at_any_speed) {
    std::vector<Launch> next = side("b", 5, 0.1, 6);
    next[2].summary.wrong = 1;
    next[2].exit_code = 6;
    const Comparison comparison = compare(side("a", 5, 0.1, 12), next, Options{});
    const CaseResult result = only_case(comparison);
    EXPECT_EQ(result.verdict, Verdict::WrongData);
    EXPECT_EQ(result.reason, "1 wrong push in 1 of 5 launches, first in b2.h5");
    EXPECT_EQ(mildly(comparison), ExitCode::Regression);
    // A base that was wrong is no base.
    const Comparison other = compare(next, side("a", 5, 0.1, 12), Options{});
    EXPECT_EQ(only_case(other).base_launches, 4U);
    EXPECT_EQ(other.notes, std::vector<std::string>{"base: left out b2.h5: 1 of its pushes were "
                                                    "wrong"});
}

TEST(Compare, case_that_new_lacks_fails_unless_allowed) {
    std::vector<Launch> base = side("a", 5, 0.1, 12);
    append(base, as_case(side("a", 5, 0.1, 12), "other"));
    const Comparison comparison = compare(base, side("b", 5, 0.1, 12), Options{});
    ASSERT_EQ(comparison.cases.size(), 2U);
    EXPECT_EQ(comparison.cases[0].verdict, Verdict::Same);
    EXPECT_EQ(comparison.cases[1].verdict, Verdict::Missing);
    EXPECT_EQ(mildly(comparison), ExitCode::Regression);
    EXPECT_EQ(judge(comparison, MissingCases::Allow, Inconclusive::Pass), ExitCode::Ok);
    const Comparison reversed = compare(side("b", 5, 0.1, 12), base, Options{});
    EXPECT_EQ(only_case(reversed).verdict, Verdict::Same);
    EXPECT_EQ(reversed.notes, std::vector<std::string>{"only in new, not compared: "
                                                       "other/tp=1/tp=2/direct/shm"});
}

TEST(Compare, launch_that_failed_is_left_out_and_named) {
    std::vector<Launch> next = side("b", 5, 0.1, 12);
    next[0].status = "failed";
    next[0].exit_code = 5;
    const Comparison comparison = compare(side("a", 5, 0.1, 12), next, Options{});
    EXPECT_EQ(only_case(comparison).new_launches, 4U);
    EXPECT_EQ(comparison.notes,
              std::vector<std::string>{"new: left out b0.h5: its run failed with exit code 5"});
    for (Launch& one : next) one.exit_code = 4;
    EXPECT_EQ(only_case(compare(side("a", 5, 0.1, 12), next, Options{})).verdict, Verdict::Missing);
    EXPECT_NE(error_of(ExitCode::NotComparable,
                       [&] { (void)compare(next, side("a", 5, 0.1, 12), Options{}); })
                  .find("base has no launch"),
              std::string::npos);
}

TEST(Compare, copy_of_a_run_is_not_another_launch) {
    std::vector<Launch> next = side("b", 5, 0.1, 12);
    next[1].run_uuid = next[0].run_uuid;
    EXPECT_EQ(error_of(ExitCode::NotComparable,
                       [&] { (void)compare(side("a", 5, 0.1, 12), next, Options{}); }),
              "new: b0.h5 and b1.h5 are copies of one run (run b0)");
}

struct Change {
    const char* field;
    std::function<void(Launch&)> apply;
};
std::ostream& operator<<(std::ostream& out, const Change& change) { return out << change.field; }

class Gated : public testing::TestWithParam<Change> {};

TEST_P(Gated, field_that_differs_is_named) {
    for (const std::size_t changed : {0U, 4U}) {
        std::vector<Launch> next = side("b", 5, 0.1, 12);
        GetParam().apply(next[changed]);
        const std::string why = error_of(ExitCode::NotComparable, [&] {
            (void)compare(side("a", 5, 0.1, 12), next, Options{});
        });
        EXPECT_NE(why.find(std::string(GetParam().field) + " is "), std::string::npos) << why;
        EXPECT_NE(why.find(next[changed].path), std::string::npos) << why;
    }
    std::vector<Launch> mixed = side("a", 5, 0.1, 12);
    GetParam().apply(mixed[3]);
    EXPECT_NE(error_of(ExitCode::NotComparable,
                       [&] { (void)compare(mixed, side("b", 5, 0.1, 12), Options{}); })
                  .find(GetParam().field),
              std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    , Gated,
    testing::Values(Change{"plan digest", [](Launch& l) { l.info.plan_digest = 1; }},
                    Change{"bytes", [](Launch& l) { l.info.bytes = 1; }},
                    Change{"transport", [](Launch& l) { l.info.transport = "mpi"; }},
                    Change{"verification", [](Launch& l) { l.info.verify = "none"; }},
                    Change{"memory", [](Launch& l) { l.info.memory = "cuda"; }},
                    Change{"cpu", [](Launch& l) { l.provenance[1].second = "Xeon"; }},
                    Change{"ranks by node", [](Launch& l) { l.ranks[1].node = 0; }},
                    Change{"ranks", [](Launch& l) { l.ranks.pop_back(); }},
                    Change{"ranks with a NIC", [](Launch& l) { l.ranks[0].nic = ""; }},
                    Change{"ranks with a GPU", [](Launch& l) { l.ranks[0].gpu_uuid = "GPU-1"; }}),
    [](const auto& row) {
        std::string name = row.param.field;
        std::replace(name.begin(), name.end(), ' ', '_');
        return name;
    });

TEST(Compare, sides_without_a_common_case_say_what_differs) {
    std::vector<Launch> next = as_case(side("b", 5, 0.1, 12), "other");
    for (Launch& one : next) one.info.plan_digest = 2;
    const std::string why = error_of(
        ExitCode::NotComparable, [&] { (void)compare(side("a", 5, 0.1, 12), next, Options{}); });
    EXPECT_EQ(why,
              "not comparable: no case is on both sides: model is tiny and other, plan digest is "
              "000000000000abcd and 0000000000000002 in a0.h5 and b0.h5");
}

TEST(Compare, provenance_that_differs_is_named_and_not_judged) {
    std::vector<Launch> next = side("b", 5, 0.1, 12);
    for (Launch& one : next) {
        one.tool_version = "0.2.0";
        one.provenance[0].second = "Linux 6.5";
        one.provenance.emplace_back("driver", "570");
        one.provenance.emplace_back("SLURM_JOB_ID", "7");
        one.info.options = R"({"window_bytes":2,"order":"rotated"})";
        for (record::RankInfo& rank : one.ranks) {
            rank.host = rank.host == "n0" ? "n1" : rank.host;
            rank.mtu = 1024;
        }
    }
    const Comparison comparison = compare(side("a", 5, 0.1, 12), next, Options{});
    EXPECT_EQ(only_case(comparison).verdict, Verdict::Same);
    std::vector<std::string> lines;
    for (const Difference& d : comparison.differences)
        lines.push_back(d.field + ": " + d.base + " -> " + d.next);
    EXPECT_EQ(lines, (std::vector<std::string>{
                         "MTU: 4096 -> 1024", "driver: none -> 570", "hosts: n0, n7 -> n1, n7",
                         "kernel: Linux 6.1 -> Linux 6.5", "option window_bytes: 1 -> 2",
                         "tool version: 0.1.0 -> 0.2.0"}));
}

/// Nights 0 … count-1, one launch each, around 12 ms; later ones are named later.
std::vector<Launch> nights(std::size_t count) {
    std::vector<Launch> all;
    for (std::size_t i = 0; i < count; ++i) {
        Launch one =
            launch("night" + std::to_string(i), 0.1, 12 + 0.01 * static_cast<double>(i * 7 % 11));
        one.created_utc = "2026-10-" + std::string(i < 9 ? "0" : "") + std::to_string(i + 1);
        all.push_back(one);
    }
    return all;
}

TEST(History, twenty_nights_decide_and_nineteen_do_not) {
    Options options;
    options.history = 20;
    const std::vector<Launch> slow{launch("tonight", 1.6, 12)};
    const Comparison decided = compare(nights(20), slow, options);
    const CaseResult result = only_case(decided);
    EXPECT_EQ(result.verdict, Verdict::Slower);
    EXPECT_DOUBLE_EQ(*result.p, 1.0 / 21);
    ASSERT_FALSE(result.causes.empty());
    EXPECT_EQ(result.causes[0].phase, record::Phase::Post);
    EXPECT_EQ(result.new_slowest.host, "n7");
    EXPECT_EQ(mildly(decided), ExitCode::Regression);

    const Comparison undecided = compare(nights(19), slow, options);
    EXPECT_EQ(only_case(undecided).verdict, Verdict::Inconclusive);
    EXPECT_EQ(only_case(undecided).reason,
              "19 earlier launches allow no p below 1/20 = 0.0500, so none under 0.05: 20 are "
              "needed");
    EXPECT_EQ(mildly(undecided), ExitCode::Ok);
}

TEST(History, takes_the_last_nights_and_not_the_new_one) {
    Options options;
    options.history = 20;
    std::vector<Launch> all = nights(30);
    for (std::size_t i = 0; i < 10; ++i) all[i] = launch(all[i].path, 0.1, 90);  // long ago
    for (std::size_t i = 0; i < 10; ++i) all[i].created_utc = "2026-09-01";
    const Launch tonight = launch("tonight", 1.6, 12);
    all.push_back(tonight);
    const CaseResult result = only_case(compare(all, std::vector<Launch>{tonight}, options));
    EXPECT_EQ(result.base_launches, 20U);
    EXPECT_EQ(result.verdict, Verdict::Slower);
}

TEST(History, ordinary_and_good_nights_pass) {
    Options options;
    options.history = 20;
    const auto verdict = [&](double wire_ms) {
        return only_case(compare(nights(20), std::vector{launch("x", 0.1, wire_ms)}, options))
            .verdict;
    };
    EXPECT_EQ(verdict(12.05), Verdict::Same);
    EXPECT_EQ(verdict(12.4), Verdict::Same) << "the slowest of all, but within the threshold";
    EXPECT_EQ(verdict(11), Verdict::Faster);
}

TEST(History, one_bad_night_before_keeps_the_next_from_being_judged) {
    Options options;
    options.history = 20;
    std::vector<Launch> before = nights(20);
    before[4] = launch("bad", 0.1, 20);
    const CaseResult result =
        only_case(compare(before, std::vector{launch("x", 0.1, 14)}, options));
    EXPECT_EQ(result.verdict, Verdict::Inconclusive);
    EXPECT_DOUBLE_EQ(*result.p, 2.0 / 21);
    EXPECT_NE(result.reason.find("as far off were seen"), std::string::npos) << result.reason;
}

TEST(History, first_night_and_several_launches) {
    Options options;
    options.history = 20;
    const std::vector<Launch> first{launch("x", 0.1, 12)};
    const CaseResult result = only_case(compare(first, first, options));
    EXPECT_EQ(result.verdict, Verdict::Inconclusive);
    EXPECT_EQ(result.reason, "no earlier launch of it");
    EXPECT_NE(error_of(ExitCode::Usage,
                       [&] { (void)compare(nights(20), side("b", 2, 0.1, 12), options); })
                  .find("--history holds one new launch"),
              std::string::npos);
}

TEST(Compare, new_side_is_held_against_references_and_floor) {
    Options options;
    options.references = {{"tiny/tp=1/tp=2/direct/shm", "p50_ms", 13, 20}};
    const Comparison comparison = compare(side("a", 5, 0.1, 12), side("b", 5, 0.1, 12), options);
    ASSERT_EQ(only_case(comparison).out_of_bounds.size(), 1U);
    EXPECT_TRUE(only_case(comparison).out_of_bounds[0].is_implausible);
    EXPECT_EQ(only_case(comparison).verdict, Verdict::Same);
    EXPECT_EQ(mildly(comparison), ExitCode::Regression);

    std::vector<Launch> next = side("b", 5, 0.1, 12);
    for (Launch& one : next) one.info.floor_ns = made_up::ns(14);
    const Comparison impossible = compare(side("a", 5, 0.1, 12), next, Options{});
    ASSERT_EQ(only_case(impossible).out_of_bounds.size(), 1U);
    EXPECT_EQ(only_case(impossible).out_of_bounds[0].source, "the floor");
    EXPECT_EQ(mildly(impossible), ExitCode::Regression);
}

}  // namespace
}  // namespace weightlift::compare
