// What needs no MPI_Init: the watchdog and the launcher's environment.
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "weightlift/mpi/communicator.hpp"
#include "weightlift/mpi/deadline.hpp"

namespace weightlift::mpi {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, ends_the_process_with_the_message_when_a_guard_outlives_its_deadline) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            Watchdog watchdog;
            const auto guard = watchdog.guard(Deadline(milliseconds(50)), [] {
                return std::string("rank 3 (host n1): flush to rank 5 stuck");
            });
            std::this_thread::sleep_for(std::chrono::seconds(20));
        },
        testing::ExitedWithCode(5), "rank 3 \\(host n1\\): flush to rank 5 stuck");
}

TEST(Watchdog, lets_guards_pass_that_end_in_time) {
    Watchdog watchdog;
    for (int i = 0; i < 100; ++i) {
        const auto guard =
            watchdog.guard(Deadline(milliseconds(200)), [] { return std::string("late"); });
    }
    // A passed deadline of a guard that is gone must not count against the next one.
    {
        const auto guard = watchdog.guard(Deadline(milliseconds(1)), [] { return std::string(); });
    }
    const auto guard =
        watchdog.guard(Deadline(std::chrono::hours(1)), [] { return std::string(); });
    std::this_thread::sleep_for(milliseconds(20));
}

TEST(LauncherWorldSize, is_what_the_launcher_says) {
    struct Case {
        const char* name;
        std::map<std::string, std::string> environment;
        int expected;
    };
    const Case cases[] = {
        {"no launcher", {}, 0},
        {"mpirun", {{"OMPI_COMM_WORLD_SIZE", "24"}}, 24},
        {"mpirun inside a Slurm job",
         {{"OMPI_COMM_WORLD_SIZE", "3"}, {"SLURM_NTASKS", "16"}, {"SLURM_STEP_ID", "0"}},
         3},
        {"PMI", {{"PMI_SIZE", "4"}}, 4},
        {"batch script", {{"SLURM_NTASKS", "16"}}, 0},
        {"srun",
         {{"SLURM_NTASKS", "16"}, {"SLURM_STEP_ID", "2"}, {"SLURM_STEP_NUM_TASKS", "8"}},
         8},
        {"shell of salloc", {{"SLURM_NTASKS", "16"}, {"SLURM_STEP_ID", "4294967290"}}, 0},
    };
    const char* const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS",
                                 "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"};
    for (const Case& row : cases) {
        SCOPED_TRACE(row.name);
        for (const char* name : names) ::unsetenv(name);
        for (const auto& [name, value] : row.environment) ::setenv(name.c_str(), value.c_str(), 1);
        EXPECT_EQ(launcher_world_size(), row.expected);
    }
}

}  // namespace
}  // namespace weightlift::mpi
