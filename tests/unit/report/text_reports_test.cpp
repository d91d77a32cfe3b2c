#include <sstream>

#include <gtest/gtest.h>

#include "weightlift/report/report.hpp"

#include "runs.hpp"

namespace weightlift::report {
namespace {

using made_up::one_case;

std::vector<std::string> lines(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
}

TEST(Csv, numbers_are_unrounded_and_what_was_not_measured_is_empty) {
    const auto csv =
        lines(csv_report({made_up::run("a.h5", {one_case("m/tp=1/tp=1/direct/shm")})}));
    ASSERT_EQ(csv.size(), 2U);
    EXPECT_EQ(csv[0],
              "file,run_uuid,status,exit_code,created_utc,case,key,verify,plan_digest,copies,bytes,"
              "iterations,first_ns,min_ns,p50_ns,p99_ns,max_ns,algbw_bytes_per_s,"
              "portbw_bytes_per_s,line_percent,floor_ns,times_floor,wrong,slowest_rank,"
              "slowest_ratio,slowest_iterations");
    EXPECT_EQ(csv[1],
              "a.h5,,complete,0,2026-11-30T00:00:00Z,0,m/tp=1/tp=1/direct/shm,fingerprint,"
              "000000000000abcd,1000,10000000000,3,300000000,90000000,100000000,,110000000,"
              "100000000000,50000000000,,,,0,3,4,3");
}

TEST(Csv, a_field_with_comma_or_quote_is_quoted) {
    const auto csv = lines(csv_report({made_up::run("a \"b\".h5", {one_case("m/tp=1,dp=2")})}));
    EXPECT_EQ(csv[1].substr(0, 15), "\"a \"\"b\"\".h5\",,c");
    EXPECT_NE(csv[1].find(",\"m/tp=1,dp=2\","), std::string::npos);
}

TEST(Csv, wrong_data_have_no_bandwidth) {
    auto one = one_case("x");
    one.samples[1].validity = record::Validity::Wrong;
    const auto csv = lines(csv_report({made_up::run("a.h5", {one})}));
    EXPECT_NE(csv[1].find(",110000000,"), 0U);
    EXPECT_NE(csv[1].find(",90000000,90000000,,100000000,,,,,,1,"), std::string::npos) << csv[1];
}

TEST(Markdown, every_row_has_the_cells_of_its_table) {
    const auto markdown =
        lines(markdown_report({made_up::run("a_b|c.h5", {one_case("x|y"), one_case("z*")})}));
    ASSERT_EQ(markdown.size(), 8U);
    EXPECT_EQ(markdown[2], "| A | a\\_b\\|c.h5 | complete | 2026-11-30T00:00:00Z | 4 |  () |");
    const auto bars = [](std::string line) {
        for (auto at = line.find("\\|"); at != std::string::npos; at = line.find("\\|"))
            line.erase(at, 2);
        return made_up::count(line, "|");
    };
    for (std::size_t i = 5; i < 8; ++i) EXPECT_EQ(bars(markdown[i]), bars(markdown[4])) << i;
    EXPECT_EQ(markdown[6].substr(0, 48), "| x\\|y | A | 10.0 GB | 3 | 300.0 | 90.00 | 100.0");
    EXPECT_EQ(markdown[7].substr(0, 12), "| z\\* | A | ");
}

}  // namespace
}  // namespace weightlift::report
