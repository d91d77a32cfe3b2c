#include <fstream>

#include <gtest/gtest.h>

#include "example_run.hpp"

namespace weightlift::record {
namespace {

using example::expect_equal;
using example::Folder;
using example::results_error;

constexpr std::size_t kRanks = 4;

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::unique_ptr<Recorder> record_cases(const std::string& path, std::uint64_t cases,
                                       std::uint64_t iterations) {
    auto recorder = create_results(path);
    recorder->begin_run(example::run(kRanks));
    for (std::uint64_t c = 0; c < cases; ++c) {
        const int number = recorder->begin_case(example::test_case("t" + std::to_string(c)), kRanks,
                                                example::setup(kRanks));
        EXPECT_EQ(number, static_cast<int>(c));
        for (std::uint64_t i = 0; i < iterations; ++i)
            recorder->iteration(number, example::sample(c, i, kRanks));
    }
    return recorder;
}

void expect_cases(const RunRecord& record, std::size_t cases, std::size_t iterations) {
    ASSERT_EQ(record.cases.size(), cases);
    for (std::size_t c = 0; c < cases; ++c) {
        ASSERT_EQ(record.cases[c].samples.size(), iterations) << "case " << c;
        for (std::size_t i = 0; i < iterations; ++i)
            expect_equal(record.cases[c].samples[i], example::sample(c, i, kRanks));
    }
}

TEST(ResultsFile, keeps_everything_it_was_given) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    const RunInfo run = example::run(kRanks);
    const CaseInfo info = example::test_case();
    const std::vector<FingerprintRow> fingerprints = {{.tensor = "model.embed_tokens.weight",
                                                       .trainer = 1,
                                                       .rollout = 1,
                                                       .engine = -1,
                                                       .equal = true},
                                                      {.tensor = "lm_head.weight",
                                                       .trainer = ~std::uint64_t{0},
                                                       .rollout = 3,
                                                       .engine = 7,
                                                       .equal = false}};
    const std::vector<TrafficRow> traffic = {
        {.src = 0, .dst = 2, .transport = "shm", .bytes = Bytes{1} << 40},
        {.src = 1, .dst = 3, .transport = "cuda_ipc", .bytes = 5}};
    const std::vector<NicRow> nics = {
        {.rank = 0, .nic = "mlx5_0:1", .completed = 1 << 20, .counted = 1 << 21},
        {.rank = 1, .nic = "mlx5_3:1", .completed = 7, .counted = kNotMeasured}};
    {
        auto recorder = create_results(path);
        recorder->event({.time_utc = "2026-11-29T23:59:02Z",
                         .kind = "adjustment",
                         .text = "before the run",
                         .rank = 0});
        recorder->begin_run(run);
        const int number = recorder->begin_case(info, kRanks, example::setup(kRanks));
        for (std::uint64_t i = 0; i < 5; ++i)
            recorder->iteration(number, example::sample(0, i, kRanks));
        recorder->event({.time_utc = "2026-11-29T23:59:03Z",
                         .kind = "retry",
                         .text = "rank 3: retried",
                         .rank = 3});
        recorder->fingerprints(number, fingerprints);
        recorder->traffic(number, traffic);
        recorder->nics(number, nics);
        recorder->finish("complete", ExitCode::WrongData);
    }
    const RunRecord record = read_results(path, false);

    EXPECT_EQ(record.path, path);
    EXPECT_EQ(record.schema, 1);
    EXPECT_EQ(record.status, "complete");
    EXPECT_EQ(record.exit_code, 6);
    EXPECT_EQ(record.finished_utc.size(), run.created_utc.size());
    EXPECT_EQ(record.run.run_uuid, run.run_uuid);
    EXPECT_EQ(record.run.created_utc, run.created_utc);
    EXPECT_EQ(record.run.tool_version, run.tool_version);
    EXPECT_EQ(record.run.git, run.git);
    EXPECT_EQ(record.run.command_line, run.command_line);
    EXPECT_EQ(record.run.labels, run.labels);
    EXPECT_EQ(record.run.provenance, run.provenance);
    ASSERT_EQ(record.run.ranks.size(), run.ranks.size());
    for (std::size_t i = 0; i < kRanks; ++i) {
        const RankInfo& actual = record.run.ranks[i];
        EXPECT_EQ(actual.role, run.ranks[i].role);
        EXPECT_EQ(actual.rank, run.ranks[i].rank);
        EXPECT_EQ(actual.plan_rank, run.ranks[i].plan_rank);
        EXPECT_EQ(actual.engine, run.ranks[i].engine);
        EXPECT_EQ(actual.engine_rank, run.ranks[i].engine_rank);
        EXPECT_EQ(actual.host, run.ranks[i].host);
        EXPECT_EQ(actual.node, run.ranks[i].node);
        EXPECT_EQ(actual.local_rank, run.ranks[i].local_rank);
        EXPECT_EQ(actual.gpu_uuid, run.ranks[i].gpu_uuid);
        EXPECT_EQ(actual.gpu_pci, run.ranks[i].gpu_pci);
        EXPECT_EQ(actual.nic, run.ranks[i].nic);
        EXPECT_EQ(actual.gid_index, run.ranks[i].gid_index);
        EXPECT_EQ(actual.mtu, run.ranks[i].mtu);
        EXPECT_EQ(actual.registration, run.ranks[i].registration);
        EXPECT_EQ(actual.weight_bytes, run.ranks[i].weight_bytes);
    }

    expect_cases(record, 1, 5);
    const CaseRecord& only = record.cases.at(0);
    EXPECT_EQ(only.info.key, info.key);
    EXPECT_EQ(only.info.model, info.model);
    EXPECT_EQ(only.info.trainer, info.trainer);
    EXPECT_EQ(only.info.rollout, info.rollout);
    EXPECT_EQ(only.info.strategy, info.strategy);
    EXPECT_EQ(only.info.transport, info.transport);
    EXPECT_EQ(only.info.verify, info.verify);
    EXPECT_EQ(only.info.memory, info.memory);
    EXPECT_EQ(only.info.options, info.options);
    EXPECT_EQ(only.info.parameters, info.parameters);
    EXPECT_EQ(only.info.bytes, info.bytes);
    EXPECT_EQ(only.info.unique_bytes, info.unique_bytes);
    EXPECT_EQ(only.info.wire_bytes, info.wire_bytes);
    EXPECT_EQ(only.info.port_bytes, info.port_bytes);
    EXPECT_EQ(only.info.transfers, info.transfers);
    EXPECT_EQ(only.info.copies, info.copies);
    EXPECT_EQ(only.info.plan_digest, info.plan_digest);
    EXPECT_EQ(only.info.floor_ns, kNotMeasured);
    EXPECT_EQ(only.info.line_rate, kNotMeasured);
    EXPECT_EQ(only.setup_ns, example::setup(kRanks));

    ASSERT_EQ(only.fingerprints.size(), fingerprints.size());
    for (std::size_t i = 0; i < fingerprints.size(); ++i) {
        EXPECT_EQ(only.fingerprints[i].tensor, fingerprints[i].tensor);
        EXPECT_EQ(only.fingerprints[i].trainer, fingerprints[i].trainer);
        EXPECT_EQ(only.fingerprints[i].rollout, fingerprints[i].rollout);
        EXPECT_EQ(only.fingerprints[i].engine, fingerprints[i].engine);
        EXPECT_EQ(only.fingerprints[i].equal, fingerprints[i].equal);
    }
    ASSERT_EQ(only.traffic.size(), traffic.size());
    for (std::size_t i = 0; i < traffic.size(); ++i) {
        EXPECT_EQ(only.traffic[i].src, traffic[i].src);
        EXPECT_EQ(only.traffic[i].dst, traffic[i].dst);
        EXPECT_EQ(only.traffic[i].transport, traffic[i].transport);
        EXPECT_EQ(only.traffic[i].bytes, traffic[i].bytes);
    }
    ASSERT_EQ(only.nics.size(), nics.size());
    for (std::size_t i = 0; i < nics.size(); ++i) {
        EXPECT_EQ(only.nics[i].rank, nics[i].rank);
        EXPECT_EQ(only.nics[i].nic, nics[i].nic);
        EXPECT_EQ(only.nics[i].completed, nics[i].completed);
        EXPECT_EQ(only.nics[i].counted, nics[i].counted);
    }
    ASSERT_EQ(record.events.size(), 2U);
    EXPECT_EQ(record.events[0].text, "before the run");
    EXPECT_EQ(record.events[1].time_utc, "2026-11-29T23:59:03Z");
    EXPECT_EQ(record.events[1].kind, "retry");
    EXPECT_EQ(record.events[1].text, "rank 3: retried");
    EXPECT_EQ(record.events[1].rank, 3);
}

TEST(ResultsFile, holds_several_cases_and_takes_late_iterations_of_an_earlier_one) {
    const Folder folder;
    const std::string path = folder.file("sweep.h5");
    auto recorder = record_cases(path, 3, 4);
    for (std::uint64_t c = 0; c < 3; ++c)
        recorder->iteration(static_cast<int>(c), example::sample(c, 4, kRanks));
    recorder->finish("complete", ExitCode::Ok);
    expect_cases(read_results(path, false), 3, 5);
}

TEST(ResultsFile, holds_tables_of_production_size) {
    const Folder folder;
    const std::string path = folder.file("large.h5");
    std::vector<FingerprintRow> fingerprints(70'000);
    for (std::size_t i = 0; i < fingerprints.size(); ++i)
        fingerprints[i] = {.tensor = "model.layers." + std::to_string(i) + ".weight",
                           .trainer = i,
                           .rollout = i,
                           .engine = -1,
                           .equal = true};
    std::vector<TrafficRow> traffic(65'536);
    for (std::size_t i = 0; i < traffic.size(); ++i)
        traffic[i] = {.src = static_cast<std::int32_t>(i / 256),
                      .dst = static_cast<std::int32_t>(i % 256),
                      .transport = "verbs",
                      .bytes = i};
    auto recorder = record_cases(path, 1, 1);
    recorder->fingerprints(0, fingerprints);
    recorder->traffic(0, traffic);
    recorder->finish("complete", ExitCode::Ok);

    const RunRecord record = read_results(path, false);
    ASSERT_EQ(record.cases.at(0).fingerprints.size(), fingerprints.size());
    ASSERT_EQ(record.cases.at(0).traffic.size(), traffic.size());
    for (std::size_t i = 0; i < fingerprints.size(); ++i)
        ASSERT_EQ(record.cases[0].fingerprints[i].tensor, fingerprints[i].tensor);
    for (std::size_t i = 0; i < traffic.size(); ++i)
        ASSERT_EQ(record.cases[0].traffic[i].bytes, traffic[i].bytes);
}

TEST(ResultsFile, marks_texts_that_are_cut) {
    const Folder folder;
    const std::string path = folder.file("long.h5");
    RunInfo run = example::run(1);
    run.command_line.assign(59'999, 'x');
    for (int i = 0; i < 50'000; ++i) run.labels += "ü";
    run.provenance = {{"long", std::string(100'000, 'y')}};
    {
        auto recorder = create_results(path);
        recorder->begin_run(run);
        recorder->event({.time_utc = "t", .kind = "retry", .text = std::string(1000, 'z')});
        recorder->finish("failed", ExitCode::Transport);
    }
    const RunRecord record = read_results(path, false);
    EXPECT_EQ(record.status, "failed");
    EXPECT_EQ(record.run.command_line, run.command_line);
    EXPECT_LE(record.run.labels.size(), 60'000U);
    EXPECT_TRUE(record.run.labels.ends_with("ü… [cut, 100000 bytes]"));
    EXPECT_TRUE(record.run.provenance.at(0).second.ends_with("y… [cut, 100000 bytes]"));
    EXPECT_EQ(record.events.at(0).text.size(), 512U);
    EXPECT_TRUE(record.events.at(0).text.ends_with("z… [cut, 1000 bytes]"));
}

TEST(ResultsFile, goes_from_running_to_aborted_or_complete) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    auto recorder = record_cases(path, 1, 3);
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_TRUE(
        contains(results_error([&] { (void)read_results(path, false); }), "--allow-partial"));
    {
        const RunRecord live = read_results(path, true);
        EXPECT_EQ(live.status, "running");
        EXPECT_EQ(live.path, path + ".part");
        expect_cases(live, 1, 3);
    }
    recorder->iteration(0, example::sample(0, 3, kRanks));
    expect_cases(read_results(path + ".part", true), 1, 4);

    recorder.reset();  // without finish
    const RunRecord aborted = read_results(path + ".part", true);
    EXPECT_EQ(aborted.status, "aborted");
    EXPECT_EQ(aborted.exit_code, -1);
    expect_cases(aborted, 1, 4);
    EXPECT_TRUE(contains(results_error([&] { (void)read_results(path + ".part", false); }),
                         "--allow-partial"));
    EXPECT_FALSE(std::filesystem::exists(path + ".part.next"));

    std::filesystem::remove(path + ".part");
    record_cases(path, 1, 3)->finish("complete", ExitCode::Ok);
    EXPECT_EQ(read_results(path, true).status, "complete");
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
    EXPECT_FALSE(std::filesystem::exists(path + ".part.next"));
}

TEST(ResultsFile, reads_a_run_that_has_not_begun) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    const auto recorder = create_results(path);
    const RunRecord record = read_results(path, true);
    EXPECT_EQ(record.status, "running");
    EXPECT_TRUE(record.cases.empty());
    EXPECT_TRUE(record.run.ranks.empty());
}

TEST(ResultsFile, is_created_exclusively) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    {
        const auto recorder = create_results(path);
        EXPECT_TRUE(contains(results_error([&] { (void)create_results(path); }),
                             path + ".part already exists"));
    }
    EXPECT_TRUE(contains(results_error([&] { (void)create_results(path); }),
                         path + ".part already exists"));
    std::filesystem::remove(path + ".part");
    std::ofstream(path) << "somebody's";
    EXPECT_TRUE(
        contains(results_error([&] { (void)create_results(path); }), path + " already exists"));
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(ResultsFile, names_the_folder_that_does_not_exist) {
    const Folder folder;
    const std::string message =
        results_error([&] { (void)create_results(folder.file("nowhere/run.h5")); });
    EXPECT_TRUE(contains(message, "folder " + folder.file("nowhere") + " does not exist"))
        << message;
}

TEST(ResultsFile, does_not_replace_a_file_that_appeared_meanwhile) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    auto recorder = record_cases(path, 1, 3);
    std::ofstream(path) << "somebody's";
    const std::string message = results_error([&] { recorder->finish("complete", ExitCode::Ok); });
    EXPECT_TRUE(contains(message, "appeared during the run")) << message;
    recorder.reset();

    std::string text;
    std::ifstream(path) >> text;
    EXPECT_EQ(text, "somebody's");
    const RunRecord record = read_results(path + ".part", true);
    EXPECT_EQ(record.status, "complete");
    expect_cases(record, 1, 3);
}

TEST(ResultsFile, refuses_samples_that_do_not_fit_their_case) {
    const Folder folder;
    auto recorder = record_cases(folder.file("run.h5"), 1, 1);
    EXPECT_THROW(recorder->iteration(0, example::sample(0, 1, kRanks - 1)), Error);
    EXPECT_THROW(recorder->iteration(1, example::sample(1, 0, kRanks)), Error);
    EXPECT_THROW(recorder->finish("finished", ExitCode::Ok), Error);
    expect_cases(read_results(folder.file("run.h5"), true), 1, 1);
}

TEST(ResultsFile, takes_no_more_after_an_error) {
    const Folder folder;
    auto recorder = record_cases(folder.file("run.h5"), 1, 1);
    std::filesystem::remove(folder.file("run.h5.part"));
    const auto begin_case = [&] {
        recorder->begin_case(example::test_case(), kRanks, example::setup(kRanks));
    };
    EXPECT_TRUE(contains(results_error(begin_case), "cannot copy: No such file or directory"));
    EXPECT_TRUE(
        contains(results_error([&] { recorder->iteration(0, example::sample(0, 1, kRanks)); }),
                 "takes no more after an earlier error"));
    EXPECT_TRUE(contains(results_error([&] {
                             recorder->event({"t", "retry", "text", 0});
                         }),
                         "takes no more after an earlier error"));
}

TEST(ResultsFile, tells_the_version_of_hdf5) { EXPECT_EQ(hdf5_version().find("1."), 0U); }

}  // namespace
}  // namespace weightlift::record
