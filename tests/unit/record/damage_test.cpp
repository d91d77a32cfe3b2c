// Files that are not what they should be: an error that names the file, never a crash.
#include <fstream>
#include <iterator>
#include <random>

#include <gtest/gtest.h>

#include "example_run.hpp"

/// HDF5 loses the memory of metadata blocks whose checksum turns out wrong; sanitizer builds look
/// for what we lose.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace weightlift::record {
namespace {

using example::Folder;
using example::results_error;

constexpr std::size_t kRanks = 3;

void write(const std::string& path, const std::string& bytes) {
    std::ofstream file(path, std::ios::binary);
    file << bytes;
}

std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// A complete file, or a .part that its writer left.
std::string recorded(const std::string& path, bool complete) {
    {
        auto recorder = create_results(path);
        recorder->begin_run(example::run(kRanks));
        recorder->begin_case(example::test_case(), kRanks, example::setup(kRanks));
        for (std::uint64_t i = 0; i < 6; ++i) recorder->iteration(0, example::sample(0, i, kRanks));
        recorder->fingerprints(0, std::vector<FingerprintRow>(20));
        if (complete) recorder->finish("complete", ExitCode::Ok);
    }
    return bytes_of(complete ? path : path + ".part");
}

/// True where the file could be read; anything but success and ResultsError fails the test.
bool is_readable(const std::string& path) {
    try {
        (void)read_results(path, true);
        return true;
    } catch (const ResultsError& error) {
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
        return false;
    }
}

TEST(Damage, other_things_than_results_are_named) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    const auto message = [&] { return results_error([&] { (void)read_results(path, true); }); };
    EXPECT_NE(message().find(path + " does not exist"), std::string::npos);
    write(path, "");
    EXPECT_NE(message().find(path + " is empty"), std::string::npos);
    write(path, "bytes,time_ns\n1,2\n");
    EXPECT_NE(message().find(path + " is not an HDF5 file"), std::string::npos);
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    EXPECT_NE(message().find(path + " is not an HDF5 file"), std::string::npos);
}

TEST(Damage, truncated_complete_file_is_refused_at_every_length) {
    const Folder folder;
    const std::string path = folder.file("run.h5");
    const std::string whole = recorded(path, true);
    ASSERT_TRUE(is_readable(path));
    for (std::size_t length = 0; length < whole.size(); length += 149) {
        write(path, whole.substr(0, length));
        EXPECT_FALSE(is_readable(path)) << length;
    }
}

TEST(Damage, flipped_bytes_are_no_crash) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (const bool complete : {true, false}) {
        const Folder folder;
        const std::string whole = recorded(folder.file("run.h5"), complete);
        const std::string path = folder.file("damaged.h5");
        int refused = 0;
        for (int round = 0; round < 300; ++round) {
            std::string bytes = whole;
            const std::size_t flips = 1 + random() % 4;
            for (std::size_t i = 0; i < flips; ++i) {
                char& byte = bytes[random() % bytes.size()];
                byte = static_cast<char>(byte ^ static_cast<char>(1 + random() % 255));
            }
            write(path, bytes);
            if (!is_readable(path)) ++refused;
        }
        EXPECT_GT(refused, 0);
    }
}

TEST(Damage, truncated_part_gives_an_error_or_whole_iterations) {
    const Folder folder;
    const std::string whole = recorded(folder.file("run.h5"), false);
    const std::string path = folder.file("damaged.h5.part");
    for (std::size_t length = 0; length < whole.size(); length += 331) {
        write(path, whole.substr(0, length));
        if (!is_readable(path)) continue;
        const RunRecord record = read_results(path, true);
        for (const CaseRecord& found : record.cases)
            for (std::size_t i = 0; i < found.samples.size(); ++i)
                example::expect_equal(found.samples[i], example::sample(0, i, kRanks));
    }
}

}  // namespace
}  // namespace weightlift::record
