// Tables and JSON of hand-made records.
#include "app/case_table.hpp"

#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace weightlift::app {
namespace {

using record::CaseRecord;
using record::Sample;
using record::Validity;

constexpr std::uint64_t kMs = 1'000'000;

Sample sample(std::uint64_t ns, Validity validity, bool is_warmup = false) {
    Sample s;
    s.time_ns = ns;
    s.validity = validity;
    s.warmup = is_warmup;
    s.rank_time_ns = {ns / 2, ns};
    return s;
}

/// 10 GB in 100 ms: 100 GB/s; 4 GB through the busiest port of 50 GB/s: 80 % of the line.
CaseRecord example(Validity validity) {
    CaseRecord one;
    one.info.key = "m/tp=1/tp=1/direct/shm";
    one.info.bytes = 10'000'000'000;
    one.info.port_bytes = 4'000'000'000;
    one.info.floor_ns = 80 * kMs;
    one.info.line_rate = 50'000'000'000;
    one.samples = {sample(300 * kMs, validity, true), sample(110 * kMs, validity),
                   sample(100 * kMs, validity), sample(90 * kMs, validity)};
    return one;
}

std::vector<record::RankInfo> two_ranks() {
    std::vector<record::RankInfo> ranks(2);
    ranks[0].host = "n041";
    ranks[1].rank = 1;
    ranks[1].host = "n042";
    ranks[1].nic = "mlx5_3";
    return ranks;
}

/// The cells of the table's row `i` (0: header), split at two or more blanks.
std::vector<std::string> cells(const std::string& table, int i) {
    std::istringstream lines(table);
    std::string line;
    for (int n = 0; n <= i; ++n) std::getline(lines, line);
    std::vector<std::string> out;
    for (std::size_t at = 0; at < line.size();) {
        at = line.find_first_not_of(' ', at);
        if (at == std::string::npos) break;
        const auto end = std::min(line.find("  ", at), line.size());
        out.push_back(line.substr(at, end - at));
        at = end;
    }
    return out;
}

using Cells = std::vector<std::string>;

TEST(CaseTable, shows_a_right_case_with_its_numbers) {
    const auto table = case_table({example(Validity::Valid)}, two_ranks());
    EXPECT_EQ(cells(table, 0), (Cells{"case", "bytes", "iters", "first", "min", "p50", "p99", "max",
                                      "algbw", "portbw", "%line", "floor", "x floor", "#wrong"}));
    EXPECT_EQ(cells(table, 2),
              (Cells{"m/tp=1/tp=1/direct/shm", "10.0 GB", "3", "300.0", "90.00", "100.0", "-",
                     "110.0", "100.0", "40.00", "80", "80.00", "1.25", "0"}));
    EXPECT_NE(table.find("slowest: rank 1, n042, mlx5_3: 2.00 x median, in 3 of 3 iterations"),
              std::string::npos)
        << table;
}

TEST(CaseTable, shows_no_bandwidth_of_a_case_with_a_wrong_iteration) {
    auto one = example(Validity::Valid);
    one.samples.back().validity = Validity::Wrong;
    const auto row = cells(case_table({one}, {}), 2);
    EXPECT_EQ(row, (Cells{"m/tp=1/tp=1/direct/shm", "10.0 GB", "2", "300.0", "100.0", "100.0", "-",
                          "110.0", "-", "-", "-", "80.00", "-", "1"}));
}

TEST(CaseTable, shows_no_time_where_every_iteration_is_wrong) {
    const auto row = cells(case_table({example(Validity::Wrong)}, {}), 2);
    EXPECT_EQ(row, (Cells{"m/tp=1/tp=1/direct/shm", "10.0 GB", "0", "-", "-", "-", "-", "-", "-",
                          "-", "-", "80.00", "-", "4"}));
}

TEST(CaseTable, says_that_an_unchecked_case_is_unchecked) {
    const auto row = cells(case_table({example(Validity::Unchecked)}, {}), 2);
    ASSERT_EQ(row.size(), 14U);
    EXPECT_EQ(row.back(), "N/A") << "never 0";
    EXPECT_EQ(row[8], "100.0");
}

TEST(CaseTable, shows_what_has_no_known_rate_as_a_dash) {
    auto one = example(Validity::Valid);
    one.info.floor_ns = one.info.line_rate = record::kNotMeasured;
    const auto row = cells(case_table({one}, {}), 2);
    ASSERT_EQ(row.size(), 14U);
    EXPECT_EQ(row[9], "40.00");
    EXPECT_EQ(row[10], "-");
    EXPECT_EQ(row[11], "-");
    EXPECT_EQ(row[12], "-");
}

TEST(CaseTable, has_p99_from_100_iterations_on) {
    auto one = example(Validity::Valid);
    one.samples.assign(99, sample(100 * kMs, Validity::Valid));
    EXPECT_EQ(cells(case_table({one}, {}), 2)[6], "-");
    one.samples.push_back(sample(200 * kMs, Validity::Valid));
    EXPECT_EQ(cells(case_table({one}, {}), 2)[6], "100.0");
}

TEST(CaseTable, marks_a_case_whose_clock_is_uncertain) {
    auto one = example(Validity::Valid);
    one.samples[2].clock_error_ns = 1 * kMs;  // 1 % of 100 ms: not above
    EXPECT_EQ(cells(case_table({one}, {}), 2)[0], one.info.key);
    one.samples[2].release_skew_ns = 3 * kMs;
    const auto table = case_table({one}, {});
    EXPECT_EQ(cells(table, 2)[0], one.info.key + " *");
    EXPECT_NE(table.find("* clock error or release skew reaches 3 % of the time"),
              std::string::npos)
        << table;
    // Of warm-ups nothing is claimed.
    one.samples[2].release_skew_ns = 0;
    one.samples[0].release_skew_ns = 200 * kMs;
    EXPECT_EQ(cells(case_table({one}, {}), 2)[0], one.info.key);
}

TEST(CaseTable, says_what_moved_the_bytes_and_which_tensor_differs) {
    auto one = example(Validity::Wrong);
    one.traffic = {
        {0, 2, "shm", 3'000'000'000}, {1, 2, "shm", 2'000'000'000}, {1, 3, "mpi", 5'000}};
    one.fingerprints = {{"a", 7, 7, -1, true}, {"b", 1, 2, 4, false}, {"c", 1, 3, 0, false}};
    const auto table = case_table({one}, {});
    for (const char* line :
         {"moved by shm: 5.00 GB per push, between 2 pairs of ranks",
          "moved by mpi: 5.00 kB per push, between 1 pairs of ranks",
          "fingerprints: 1 of 3 tensors agree between trainer and every copy",
          "first that differs: b (0000000000000001 on trainers, 0000000000000002 on engine 4)"})
        EXPECT_NE(table.find(line), std::string::npos) << line << "\nin\n" << table;
}

TEST(CaseTable, counts_a_port_once_and_its_ranks_all) {
    CaseRecord one = example(Validity::Valid);
    auto ranks = two_ranks();
    ranks.resize(3);
    ranks[2].rank = 2;
    ranks[2].host = "n042";
    one.nics = {{1, "mlx5_3:1", 4'000'000'000, 9'100'000'000},
                {2, "mlx5_3:1", 5'000'000'000, 9'200'000'000},
                {0, "mlx5_3:1", 1'000'000'000, 1'100'000'000},
                {0, "rxe0:1", 1'000'000'000, record::kNotMeasured},
                {1, "rxe0:1", 0, 7}};
    const std::string text = case_table({one}, ranks);
    EXPECT_NE(text.find("sent through mlx5_3:1: 10.0 GB in all, by 3 ranks; port counter 10.3 GB"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("sent through rxe0:1: 1.00 GB in all, by 1 rank; port counter N/A"),
              std::string::npos)
        << text;
}

TEST(CaseTable, of_trainers_that_disagree_blames_no_engine) {
    auto one = example(Validity::Wrong);
    one.fingerprints = {{"b", 1, 2, -1, false}};
    const auto table = case_table({one}, {});
    EXPECT_EQ(table.find("engine -1"), std::string::npos) << table;
    EXPECT_NE(table.find("on another trainer"), std::string::npos) << table;
}

nlohmann::json json_of(const CaseRecord& one) {
    record::RunRecord run;
    run.path = "results/a \"quoted\" name.h5";
    run.status = "complete";
    run.exit_code = 0;
    run.cases = {one};
    return nlohmann::json::parse(case_json(run));
}

TEST(CaseJson, has_the_numbers_and_null_for_what_was_not_measured) {
    auto one = example(Validity::Valid);
    one.info.plan_digest = 0xabc;
    one.info.floor_ns = record::kNotMeasured;
    const auto json = json_of(one);
    EXPECT_EQ(json["schema"], "weightlift-summary/1");
    EXPECT_EQ(json["file"], "results/a \"quoted\" name.h5");
    const auto& row = json["cases"][0];
    EXPECT_EQ(row["key"], one.info.key);
    EXPECT_EQ(row["plan_digest"], "0000000000000abc");
    EXPECT_EQ(row["iterations"], 3);
    EXPECT_EQ(row["wrong"], 0);
    EXPECT_EQ(row["p50_ns"], 100 * kMs);
    EXPECT_EQ(row["p99_ns"], nullptr);
    EXPECT_EQ(row["floor_ns"], nullptr);
    EXPECT_DOUBLE_EQ(row["algbw_bytes_per_s"], 100e9);
    EXPECT_DOUBLE_EQ(row["portbw_bytes_per_s"], 40e9);
    EXPECT_EQ(row["time_ns"], (std::vector<std::uint64_t>{110 * kMs, 100 * kMs, 90 * kMs}));
}

TEST(CaseJson, has_no_bandwidth_of_wrong_and_no_count_of_unchecked_cases) {
    const auto wrong = json_of(example(Validity::Wrong))["cases"][0];
    EXPECT_EQ(wrong["algbw_bytes_per_s"], nullptr);
    EXPECT_EQ(wrong["portbw_bytes_per_s"], nullptr);
    EXPECT_EQ(wrong["wrong"], 4);
    EXPECT_EQ(json_of(example(Validity::Unchecked))["cases"][0]["wrong"], nullptr);
}

}  // namespace
}  // namespace weightlift::app
