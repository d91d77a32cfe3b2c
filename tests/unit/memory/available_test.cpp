#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/memory/arena.hpp"

namespace weightlift::memory {
namespace {

namespace fs = std::filesystem;

struct File {
    std::string path;
    std::string text;
};

constexpr const char* kV2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
constexpr const char* kV1Mount =
    "36 31 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "37 31 0:32 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n";
constexpr const char* kMeminfo = "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable:    8000 kB\n";

struct Case {
    const char* name;
    std::vector<File> files;
    Bytes expected;
};

const Case kCases[] = {
    {"no cgroup", {{"/proc/meminfo", kMeminfo}}, 8000 * KiB},
    {"v2 without limits",
     {{"/proc/meminfo", kMeminfo},
      {"/proc/self/mountinfo", kV2Mount},
      {"/proc/self/cgroup", "0::/job\n"},
      {"/sys/fs/cgroup/job/memory.max", "max\n"},
      {"/sys/fs/cgroup/job/memory.current", "100\n"}},
     8000 * KiB},
    {"v2 limit of a parent, inactive cache is free",
     {{"/proc/meminfo", kMeminfo},
      {"/proc/self/mountinfo", kV2Mount},
      {"/proc/self/cgroup", "0::/slurm/job_7/step_0\n"},
      {"/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n"},
      {"/sys/fs/cgroup/slurm/job_7/memory.max", "5000000\n"},
      {"/sys/fs/cgroup/slurm/job_7/memory.current", "3000000\n"},
      {"/sys/fs/cgroup/slurm/job_7/memory.stat", "anon 1\ninactive_file 500000\n"}},
     2500000},
    {"v2 in a container whose mount is its own folder",
     {{"/proc/meminfo", kMeminfo},
      {"/proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n"},
      {"/proc/self/cgroup", "0::/docker/abc\n"},
      {"/sys/fs/cgroup/memory.max", "4000\n"},
      {"/sys/fs/cgroup/memory.current", "1000\n"}},
     3000},
    {"v1 limit",
     {{"/proc/meminfo", kMeminfo},
      {"/proc/self/mountinfo", kV1Mount},
      {"/proc/self/cgroup", "9:cpu:/other\n4:memory:/slurm/job_7\n0::/\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "6000\n"},
      {"/sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", "5500\n"},
      {"/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "6000\n"},
      {"/sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "2000\n"}},
     500},
    {"use above the limit",
     {{"/proc/meminfo", kMeminfo},
      {"/proc/self/mountinfo", kV2Mount},
      {"/proc/self/cgroup", "0::/\n"},
      {"/sys/fs/cgroup/memory.max", "1000\n"},
      {"/sys/fs/cgroup/memory.current", "4000\n"}},
     0},
};

TEST(AvailableHostMemory, is_the_least_of_the_machine_and_all_cgroups_above) {
    for (const Case& row : kCases) {
        SCOPED_TRACE(row.name);
        const fs::path root = fs::path(testing::TempDir()) / "weightlift_available";
        fs::remove_all(root);
        for (const File& file : row.files) {
            const fs::path path = root.string() + file.path;
            fs::create_directories(path.parent_path());
            std::ofstream(path) << file.text;
        }
        EXPECT_EQ(available_host_memory(root.string()), row.expected);
        fs::remove_all(root);
    }
}

TEST(AvailableHostMemory, is_known_here) {
    EXPECT_GT(available_host_memory(), 0U);
    EXPECT_LT(available_host_memory(), Bytes{1} << 50);
}

}  // namespace
}  // namespace weightlift::memory
