// What the page says of odd runs. tests/end_to_end/report_test.py holds its numbers against h5py.
#include <gtest/gtest.h>

#include "weightlift/report/report.hpp"

#include "report/charts.hpp"
#include "report/html.hpp"
#include "runs.hpp"

namespace weightlift::report {
namespace {

using made_up::count;
using made_up::kMs;
using made_up::one_case;

TEST(Html, text_is_escaped_everywhere) {
    EXPECT_EQ(escape(R"(<b> & "'")"), "&lt;b&gt; &amp; &quot;&#39;&quot;");
    const std::string evil = "<script>alert(1)</script>";
    auto one = one_case(evil);
    one.info.verify = one.info.memory = evil;
    one.fingerprints = {{evil, 1, 2, 0, false}};
    one.traffic[0].transport = evil;
    one.nics = {{3, evil, 1, 2}};
    auto run = made_up::run(evil, {one});
    run.status = run.run.created_utc = run.run.git = run.run.tool_version = evil;
    run.run.command_line = run.run.labels = run.run.run_uuid = run.finished_utc = evil;
    run.run.provenance = {{evil, evil}};
    run.events = {{evil, evil, evil, 0}};
    for (auto& rank : run.run.ranks)
        rank.role = rank.host = rank.nic = rank.gpu_uuid = rank.registration = evil;
    EXPECT_EQ(count(html_report({run}), "<script"), 0U);
}

TEST(Page, begins_with_the_verdict) {
    auto wrong = one_case("wrong");
    wrong.samples[1].validity = record::Validity::Wrong;
    auto unchecked = one_case("unchecked");
    for (auto& sample : unchecked.samples) sample.validity = record::Validity::Unchecked;
    auto empty = one_case("empty");
    empty.samples.clear();
    auto failed = made_up::run("b.h5", {wrong, unchecked, empty});
    failed.status = "failed";
    const std::string page = html_report({made_up::run("a.h5", {one_case("right")}), failed});
    EXPECT_EQ(count(page,
                    "wrong data in 1 of 4 cases; 1 of 2 runs did not complete; 1 case without a "
                    "finished push; 1 case not checked."),
              1U);
    EXPECT_EQ(count(page, "1 case with every checked push right."), 1U);
    EXPECT_EQ(count(page, "No iteration was finished."), 1U);
}

TEST(Page, a_failed_case_of_a_sweep_says_why) {
    auto failed = one_case("x");
    failed.outcome = record::CaseOutcome{"failed", 4, "no such device"};
    const std::string page = html_report({made_up::run("a.h5", {failed, one_case("y")})});
    EXPECT_EQ(count(page, "<b class=\"bad\">1 case failed.</b>"), 1U);
    EXPECT_EQ(count(page, "failed, exit code 4: no such device"), 1U);
    EXPECT_EQ(count(page, "data-field=\"algbw_bytes_per_s\">-</td>"), 1U);
}

TEST(Page, many_cases_begin_folded_up) {
    std::vector<record::CaseRecord> cases;
    for (int i = 0; i < 30; ++i) cases.push_back(one_case("case" + std::to_string(i)));
    const std::string page = html_report({made_up::run("a.h5", cases)});
    EXPECT_EQ(count(page, "<details class=\"case\""), 30U);
    EXPECT_EQ(count(page, "<details class=\"case\" id=\"case7\">"), 1U);
    EXPECT_EQ(count(html_report({made_up::run("a.h5", {cases[0]})}),
                    "<details class=\"case\" id=\"case1\" open>"),
              1U);
}

TEST(Page, a_run_without_cases_is_still_shown) {
    const std::string page = html_report({made_up::run("a.h5.part", {})});
    EXPECT_EQ(count(page, "a.h5.part"), 2U);
    EXPECT_EQ(count(page, "No case has a bandwidth to show."), 1U);
}

TEST(TimeChart, marks_what_lies_above_the_axis) {
    auto one = one_case("x");
    one.samples.assign(40, made_up::push(10 * kMs));
    one.samples[20].time_ns = 500 * kMs;
    const std::vector runs{made_up::run("a.h5", {one})};
    const Study study(runs);
    const Entry& entry = study.groups[0].entries[0];
    EXPECT_DOUBLE_EQ(time_chart_top(entry), 15.0 * kMs);
    const std::string chart = time_chart(entry, time_chart_top(entry));
    EXPECT_EQ(count(chart, "<circle class=\"push\""), 39U);
    EXPECT_EQ(count(chart, "<path class=\"push\""), 1U);
    EXPECT_EQ(count(chart, "push 21: 500.0 ms, right; last was rank 3, n042, mlx5_3"), 1U);
}

TEST(TimeChart, thousands_of_pushes_share_columns) {
    auto one = one_case("x");
    one.samples.assign(10'000, made_up::push(10 * kMs));
    const std::vector runs{made_up::run("a.h5", {one})};
    const std::string chart = time_chart(Study(runs).groups[0].entries[0], 20.0 * kMs);
    EXPECT_LE(count(chart, "<circle"), 240U);
    EXPECT_EQ(count(chart, "pushes 1 to 42: 10.00 to 10.00 ms"), 1U);
}

TEST(TrafficMap, large_maps_share_cells_and_lose_no_byte) {
    auto one = one_case("x");
    one.traffic.clear();
    for (std::int32_t src = 0; src < 256; ++src)
        for (std::int32_t dst = 256; dst < 512; dst += 1 + src % 3)
            one.traffic.push_back({src, dst, "verbs", 1000});
    const std::vector runs{made_up::run("a.h5", {one})};
    const std::string map = traffic_map(Study(runs).groups[0].entries[0]);
    EXPECT_EQ(count(map, "<rect"), 24U * 24U);
    EXPECT_EQ(count(map, "A cell is 11 × 11 ranks."), 1U);
    Bytes sum = 0;
    const std::string mark = "data-bytes=\"";
    for (auto at = map.find(mark); at != std::string::npos; at = map.find(mark, at + 1))
        sum += std::stoull(map.substr(at + mark.size()));
    EXPECT_EQ(sum, 1000 * one.traffic.size());
}

}  // namespace
}  // namespace weightlift::report
