#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "app/run_info.hpp"
#include "unit/layout/refused.hpp"

namespace weightlift::app {
namespace {

/// Sets or unsets a variable for one test.
class Environment {
public:
    Environment(const char* name, const char* value) : name_(name) {
        if (const char* old = std::getenv(name)) old_ = old;
        if (value == nullptr)
            unsetenv(name);
        else
            setenv(name, value, 1);
    }
    ~Environment() {
        if (old_.empty())
            unsetenv(name_);
        else
            setenv(name_, old_.c_str(), 1);
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

private:
    const char* name_;
    std::string old_;
};

TEST(ResultsPath, is_what_was_asked_for) {
    EXPECT_EQ(results_path("a/b.h5", "m"), "a/b.h5");
    EXPECT_FALSE(std::filesystem::exists("a")) << "a folder named by the user is not made";
}

TEST(ResultsPath, has_the_slurm_job_for_percent_j) {
    const Environment job("SLURM_JOB_ID", "4711");
    EXPECT_EQ(results_path("r/%j.h5", "m"), "r/4711.h5");
    EXPECT_EQ(results_path("%j/%j-x.h5", "m"), "4711/4711-x.h5");
}

TEST(ResultsPath, refuses_percent_j_outside_of_a_job) {
    const Environment job("SLURM_JOB_ID", nullptr);
    EXPECT_REFUSAL(results_path("r/%j.h5", "m"),
                   "--output r/%j.h5: %j needs a Slurm job, and SLURM_JOB_ID is not set");
}

TEST(ResultsPath, defaults_to_model_and_time_in_results) {
    const auto before = std::filesystem::current_path();
    const auto folder = std::filesystem::path(testing::TempDir()) / "weightlift-results-path";
    std::filesystem::create_directories(folder);
    std::filesystem::current_path(folder);
    const std::string path = results_path("", "glm-4.5-air");
    EXPECT_TRUE(std::filesystem::is_directory("results"));
    EXPECT_EQ(path.substr(0, 20), "results/glm-4.5-air-");
    EXPECT_EQ(path.substr(path.size() - 4), "Z.h5");
    EXPECT_EQ(path.find_first_of(": "), std::string::npos);
    // Another run in the same second, while the first is under way and when it is done.
    std::ofstream(path + ".part") << "";
    EXPECT_NE(results_path("", "glm-4.5-air"), path);
    std::filesystem::rename(path + ".part", path);
    EXPECT_NE(results_path("", "glm-4.5-air"), path);
    // A file where the folder should be.
    std::filesystem::remove_all("results");
    std::ofstream("results") << "";
    try {
        (void)results_path("", "m");
        ADD_FAILURE() << "not refused";
    } catch (const ResultsError& error) {
        EXPECT_NE(std::string(error.what()).find("results"), std::string::npos);
    }
    std::filesystem::current_path(before);
    std::filesystem::remove_all(folder);
}

TEST(RunInfo, takes_environment_variables_by_allow_list_only) {
    const Environment allowed("SLURM_JOB_ID", "4711");
    const Environment secret("WEIGHTLIFT_TEST_TOKEN", "hunter2");
    const record::RunInfo info = make_run_info("push --model m", "night", ".");
    EXPECT_EQ(info.command_line, "weightlift push --model m");
    EXPECT_EQ(info.labels, "night");
    EXPECT_EQ(info.run_uuid.size(), 36U);
    bool has_job = false;
    for (const auto& [name, value] : info.provenance) {
        has_job = has_job || (name == "SLURM_JOB_ID" && value == "4711");
        EXPECT_EQ(value.find("hunter2"), std::string::npos) << name;
    }
    EXPECT_TRUE(has_job);
}

}  // namespace
}  // namespace weightlift::app
