// Cases that end one by one, and a run that takes over what a killed one left.
#include "weightlift/record/resume.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "example_run.hpp"

namespace weightlift::record {
namespace {

using example::expect_equal;
using example::Folder;
using example::results_error;

constexpr std::size_t kRanks = 4;

CaseInfo info_of(std::uint64_t number) {
    CaseInfo info = example::test_case("t" + std::to_string(number));
    info.settings = "layers=" + std::to_string(number);
    info.repetition = number;
    return info;
}

/// Records a case of three iterations; it ends unless `has_outcome` is false.
void record_case(Recorder& recorder, std::uint64_t number, bool has_outcome) {
    const int at = recorder.begin_case(info_of(number), kRanks, example::setup(kRanks));
    for (std::uint64_t i = 0; i < 3; ++i)
        recorder.iteration(at, example::sample(number, i, kRanks));
    if (!has_outcome) return;
    const std::vector<TrafficRow> traffic = {
        {.src = 0, .dst = 2, .transport = "shm", .bytes = number}};
    recorder.traffic(at, traffic);
    recorder.case_ranks(at, example::run(kRanks).ranks);
    recorder.end_case(at, {"failed", static_cast<std::int32_t>(number), "because"});
}

void expect_case(const CaseRecord& one, std::uint64_t number) {
    EXPECT_EQ(one.info.settings, info_of(number).settings);
    EXPECT_EQ(one.info.repetition, number);
    ASSERT_EQ(one.samples.size(), 3U);
    for (std::uint64_t i = 0; i < 3; ++i)
        expect_equal(one.samples[i], example::sample(number, i, kRanks));
    EXPECT_EQ(one.setup_ns, example::setup(kRanks));
    ASSERT_EQ(one.traffic.size(), 1U);
    EXPECT_EQ(one.traffic.front().bytes, number);
    ASSERT_EQ(one.ranks.size(), kRanks);
    EXPECT_EQ(one.ranks[2].role, "rollout");
    ASSERT_TRUE(one.outcome);
    EXPECT_EQ(one.outcome->status, "failed");
    EXPECT_EQ(one.outcome->exit_code, static_cast<std::int32_t>(number));
    EXPECT_EQ(one.outcome->reason, "because");
}

/// A run that is killed in its third case.
void leave_unfinished(const std::string& path) {
    auto recorder = create_results(path);
    recorder->begin_run(example::run(kRanks));
    record_case(*recorder, 0, true);
    record_case(*recorder, 1, true);
    record_case(*recorder, 2, false);
}

void copy_ended(Recorder& recorder, const RunRecord& left) {
    for (const CaseRecord& one : left.cases)
        if (one.outcome) copy_case(recorder, one);
}

TEST(EndCase, is_on_disk_with_all_that_was_said_when_it_returns) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    leave_unfinished(path);
    const RunRecord record = read_results(path, true);
    ASSERT_EQ(record.cases.size(), 3U);
    expect_case(record.cases[0], 0);
    expect_case(record.cases[1], 1);
    EXPECT_FALSE(record.cases[2].outcome);
    EXPECT_EQ(record.cases[2].samples.size(), 3U);
}

TEST(EndCase, leaves_files_that_do_not_use_it_without_outcomes) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    {
        auto recorder = create_results(path);
        recorder->begin_run(example::run(kRanks));
        static_cast<void>(
            recorder->begin_case(example::test_case(), kRanks, example::setup(kRanks)));
        recorder->finish("complete", ExitCode::Ok);
    }
    const CaseRecord one = read_results(path, false).cases.at(0);
    EXPECT_FALSE(one.outcome);
    EXPECT_TRUE(one.info.settings.empty());
    EXPECT_TRUE(one.ranks.empty());
}

TEST(Resume, takes_over_what_had_ended_and_goes_on) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    leave_unfinished(path);
    ASSERT_TRUE(has_unfinished(path));
    const auto left = read_unfinished(path);
    ASSERT_TRUE(left);
    set_aside(path);
    {
        auto recorder = create_results(path);
        recorder->begin_run(left->run);
        copy_ended(*recorder, *left);
        drop_aside(path);
        record_case(*recorder, 2, true);
        recorder->finish("failed", ExitCode::Transport);
    }
    EXPECT_FALSE(has_unfinished(path));
    const RunRecord record = read_results(path, false);
    EXPECT_EQ(record.run.run_uuid, example::run(kRanks).run_uuid);
    ASSERT_EQ(record.cases.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) expect_case(record.cases[i], i);
}

TEST(Resume, starts_again_from_the_old_file_where_copying_was_cut_short) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    leave_unfinished(path);
    set_aside(path);
    {  // killed before a single case was copied
        auto recorder = create_results(path);
        recorder->begin_run(example::run(kRanks));
    }
    const auto left = read_unfinished(path);
    ASSERT_TRUE(left);
    ASSERT_EQ(left->cases.size(), 3U);
    set_aside(path);
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
    EXPECT_EQ(read_unfinished(path)->cases.size(), 3U);
}

TEST(Resume, finds_nothing_in_a_file_without_a_byte) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    std::ofstream(path + ".part").close();
    EXPECT_FALSE(read_unfinished(path));
    set_aside(path);
    EXPECT_FALSE(has_unfinished(path));
}

TEST(Resume, leaves_a_run_alone_that_still_lives) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    auto recorder = create_results(path);
    recorder->begin_run(example::run(kRanks));
    const std::string said = results_error([&] { static_cast<void>(read_unfinished(path)); });
    EXPECT_NE(said.find("still alive"), std::string::npos) << said;
}

}  // namespace
}  // namespace weightlift::record
