#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/doctor/finding.hpp"

namespace weightlift::app::doctor {
namespace {

Finding ok(const std::string& check, const std::string& evidence) {
    return {check, Verdict::Ok, evidence, ""};
}
const Finding kTooLittle{"locked memory", Verdict::Fail, "64 KiB", "ulimit -l unlimited"};

/// Ranks 0-2 on n041 and 3-5 on n042, whose limit is low.
std::vector<RankReport> two_hosts() {
    std::vector<RankReport> reports(6);
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
        const bool is_first = rank < 3;
        reports[rank].host = is_first ? "n041" : "n042";
        reports[rank].findings = {ok("launch", "6 ranks"),
                                  is_first ? ok("locked memory", "unlimited") : kTooLittle,
                                  ok("open files", "1024")};
        reports[rank].traits = {{"tool version", "1.0"},
                                {"locked memory", is_first ? "unlimited" : "64 KiB"},
                                {"NIC firmware", is_first || rank == 5 ? "28.39" : "28.36"}};
    }
    reports[0].findings.push_back({"output", Verdict::Ok, "/r is writable", "", true});
    return reports;
}

TEST(DoctorFold, makes_one_of_equal_findings_and_keeps_their_order) {
    const auto folded = fold(two_hosts());
    ASSERT_EQ(folded.size(), 5U);
    EXPECT_EQ(folded[0].finding, ok("launch", "6 ranks"));
    EXPECT_EQ(folded[0].ranks, (std::vector{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(folded[1].finding, ok("locked memory", "unlimited"));
    EXPECT_EQ(folded[1].ranks, (std::vector{0, 1, 2}));
    EXPECT_EQ(folded[2].finding, kTooLittle);
    EXPECT_EQ(folded[2].ranks, (std::vector{3, 4, 5}));
    EXPECT_EQ(folded[3].finding.check, "open files");
    EXPECT_EQ(folded[4].finding.check, "output");
    EXPECT_EQ(worst(folded), Verdict::Fail);
}

TEST(DoctorFold, puts_the_worst_of_a_check_last) {
    auto reports = two_hosts();
    std::swap(reports[0], reports[3]);
    const auto folded = fold(reports);
    EXPECT_EQ(folded[1].finding.verdict, Verdict::Ok);
    EXPECT_EQ(folded[2].finding.verdict, Verdict::Fail);
}

TEST(DoctorFold, names_ranks_and_hosts) {
    const auto reports = two_hosts();
    const std::vector all{0, 1, 2, 3, 4, 5}, one{4}, some{0, 1, 3, 5};
    EXPECT_EQ(where(all, reports), "");
    EXPECT_EQ(where(one, reports), "rank 4 on n042");
    EXPECT_EQ(where(some, reports), "ranks 0-1,3,5 on n041, n042");
    std::vector<RankReport> many(12);
    std::vector<int> most;
    for (int i = 0; i < 12; ++i) many[static_cast<std::size_t>(i)].host = "n" + std::to_string(i);
    for (int i = 0; i < 11; ++i) most.push_back(i);
    EXPECT_EQ(where(most, many), "ranks 0-10 on n0, n1, n2, n3 and 7 more hosts");
}

TEST(DoctorFold, shows_what_differs_between_ranks) {
    const auto folded = compare_traits(two_hosts());
    ASSERT_EQ(folded.size(), 3U);
    EXPECT_EQ(folded[0].finding.evidence, "on all ranks: tool version");
    EXPECT_EQ(folded[0].finding.verdict, Verdict::Ok);
    EXPECT_EQ(folded[1].finding.evidence,
              "locked memory differs:\nunlimited (ranks 0-2 on n041)\n64 KiB (ranks 3-5 on n042)");
    EXPECT_EQ(folded[1].finding.verdict, Verdict::Warn);
    EXPECT_EQ(
        folded[2].finding.evidence,
        "NIC firmware differs:\n28.39 (ranks 0-2,5 on n041, n042)\n28.36 (ranks 3-4 on n042)");
    EXPECT_NE(folded[2].finding.remedy, "");
}

TEST(DoctorFold, does_not_mix_versions) {
    auto reports = two_hosts();
    reports[4].traits[0].value = "0.9";
    const auto folded = compare_traits(reports);
    EXPECT_EQ(folded[0].finding.verdict, Verdict::Fail);
    EXPECT_NE(folded[0].finding.evidence.find("0.9 (rank 4 on n042)"), std::string::npos);
}

TEST(DoctorReport, is_a_table_with_the_remedy_below) {
    const auto reports = two_hosts();
    EXPECT_EQ(title(reports), "weightlift doctor: 6 ranks on 2 hosts");
    EXPECT_EQ(table(fold(reports), reports),
              "OK    launch             6 ranks\n"
              "OK    locked memory      unlimited (ranks 0-2 on n041)\n"
              "FAIL  locked memory      64 KiB (ranks 3-5 on n042)\n"
              "                         -> ulimit -l unlimited\n"
              "OK    open files         1024\n"
              "OK    output             /r is writable\n");
    EXPECT_EQ(footer(fold(reports)), "FAIL: 4 OK, 0 WARN, 1 FAIL, 0 SKIP");
}

TEST(DoctorReport, has_lines_of_at_most_100_columns) {
    std::vector<RankReport> reports(1);
    std::string words = "first\nsecond";
    for (int i = 0; i < 60; ++i) words += " größer" + std::to_string(i);
    reports[0].findings = {{"ports", Verdict::Warn, words, words}};
    const std::string text = table(fold(reports), reports);
    EXPECT_NE(text.find("WARN  ports              first\n                         second gr"),
              std::string::npos)
        << text;
    std::size_t lines = 0, width = 0;
    for (const char c : text) {
        if (c == '\n') {
            EXPECT_LE(width, 100U);
            width = 0;
            ++lines;
        } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
            ++width;
        }
    }
    EXPECT_GT(lines, 10U);
}

TEST(DoctorReport, says_all_as_json) {
    const auto reports = two_hosts();
    const auto json = nlohmann::json::parse(report_json(fold(reports), reports));
    EXPECT_EQ(json["schema"], "weightlift-doctor/1");
    EXPECT_EQ(json["verdict"], "FAIL");
    EXPECT_EQ(json["counts"]["OK"], 4);
    EXPECT_EQ(json["ranks"].size(), 6U);
    EXPECT_EQ(json["ranks"][3]["host"], "n042");
    EXPECT_EQ(json["ranks"][3]["traits"]["locked memory"], "64 KiB");
    EXPECT_EQ(json["findings"][2]["check"], "locked memory");
    EXPECT_EQ(json["findings"][2]["verdict"], "FAIL");
    EXPECT_EQ(json["findings"][2]["remedy"], "ulimit -l unlimited");
    EXPECT_EQ(json["findings"][2]["ranks"], (std::vector{3, 4, 5}));
}

TEST(DoctorReport, comes_back_from_its_text) {
    auto report = two_hosts()[0];
    report.findings.push_back({"a", Verdict::Skip, "ü \"quoted\"\n", "b"});
    report.findings.push_back({"a", Verdict::Warn, "", ""});
    report.findings.push_back(kTooLittle);
    EXPECT_EQ(rank_report_from_json(to_json(report)), report);
}

TEST(DoctorReport, shows_sizes_as_systems_set_them) {
    EXPECT_EQ(show_binary(0), "0 B");
    EXPECT_EQ(show_binary(65536), "64 KiB");
    EXPECT_EQ(show_binary(8388608), "8 MiB");
    EXPECT_EQ(show_binary(1023), "0.999 KiB");
    EXPECT_EQ(show_binary(std::uint64_t{47} << 29), "23.5 GiB");
}

}  // namespace
}  // namespace weightlift::app::doctor
