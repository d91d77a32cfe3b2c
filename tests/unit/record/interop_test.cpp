// What other people's tools make of a results file.
#include <cstdlib>

#include <gtest/gtest.h>

#include "example_run.hpp"

namespace weightlift::record {
namespace {

using example::Folder;

constexpr int kIterations = 7;
constexpr int kRanks = 4;

std::unique_ptr<Recorder> record(const std::string& path) {
    auto recorder = create_results(path);
    recorder->begin_run(example::run(kRanks));
    recorder->begin_case(example::test_case(), kRanks, example::setup(kRanks));
    recorder->event({.time_utc = "t", .kind = "retry", .text = "first"});
    for (std::uint64_t i = 0; i < kIterations; ++i)
        recorder->iteration(0, example::sample(0, i, kRanks));
    recorder->event({.time_utc = "t", .kind = "retry", .text = "second"});
    return recorder;
}

void finish(Recorder& recorder) {
    const std::vector<FingerprintRow> fingerprints = {{.tensor = "lm_head.weight"}};
    const std::vector<TrafficRow> traffic = {{.src = 0, .dst = 2, .transport = "shm", .bytes = 5}};
    recorder.fingerprints(0, fingerprints);
    recorder.traffic(0, traffic);
    recorder.finish("complete", ExitCode::Ok);
}

bool succeeds(const std::string& command) { return std::system(command.c_str()) == 0; }

std::string h5py_check(const std::string& path) {
    return "/usr/bin/python3 " WEIGHTLIFT_SOURCE_DIR "/tests/unit/record/check_with_h5py.py " +
           path + " " + std::to_string(kIterations) + " " + std::to_string(kRanks);
}
bool has_h5py() { return succeeds("/usr/bin/python3 -c 'import h5py' 2> /dev/null"); }

TEST(Interop, h5py_reads_a_complete_file_with_units_and_named_axes) {
    if (!has_h5py()) GTEST_SKIP() << "/usr/bin/python3 has no h5py";
    const Folder folder;
    finish(*record(folder.file("run.h5")));
    EXPECT_TRUE(succeeds(h5py_check(folder.file("run.h5"))));
}

TEST(Interop, h5py_follows_a_live_run_as_a_swmr_reader) {
    if (!has_h5py()) GTEST_SKIP() << "/usr/bin/python3 has no h5py";
    const Folder folder;
    const auto recorder = record(folder.file("run.h5"));
    EXPECT_TRUE(succeeds(h5py_check(folder.file("run.h5.part")) + " swmr"));
}

TEST(Interop, h5dump_opens_a_complete_file) {
    if (!succeeds("h5dump --version > /dev/null 2>&1")) GTEST_SKIP() << "h5dump is not installed";
    const Folder folder;
    finish(*record(folder.file("run.h5")));
    EXPECT_TRUE(succeeds("h5dump " + folder.file("run.h5") + " > /dev/null"));
    EXPECT_TRUE(succeeds("h5dump -d /samples/0/valid " + folder.file("run.h5") +
                         " | grep -q '(0): 0, 1, 2, 0, 1, 2, 0'"));
}

}  // namespace
}  // namespace weightlift::record
