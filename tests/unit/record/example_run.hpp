// A run with recognisable content, and a folder of its own for the files of one test.
#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "weightlift/record/h5_file.hpp"

namespace weightlift::record::example {

class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "weightlift-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
        path_ = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

inline RunInfo run(std::int32_t ranks) {
    RunInfo info;
    info.run_uuid = "7d1f2c34-0000-4000-8000-0123456789ab";
    info.created_utc = "2026-11-29T23:59:01Z";
    info.tool_version = "0.1.0";
    info.git = "v0.1.0-3-gabcdef0";
    info.command_line = "weightlift push --model tiny-deepseek --labels \"größer\"";
    info.labels = "";
    info.provenance = {{"compiler", "g++ 12.2"}, {"kernel", "6.1"}, {"empty", ""}};
    for (std::int32_t i = 0; i < ranks; ++i) {
        RankInfo rank;
        rank.role = i < ranks / 2 ? "trainer" : "rollout";
        rank.rank = rank.plan_rank = i;
        rank.engine = i < ranks / 2 ? -1 : 0;
        rank.engine_rank = i < ranks / 2 ? -1 : i - ranks / 2;
        rank.host = "n" + std::to_string(i);
        rank.node = i;
        rank.nic = i == 0 ? "mlx5_3" : "";
        rank.mtu = 4096;
        rank.weight_bytes = (Bytes{1} << 40) + static_cast<Bytes>(i);
        info.ranks.push_back(rank);
    }
    return info;
}

inline CaseInfo test_case(const std::string& transport = "mpi") {
    CaseInfo info;
    info.model = "tiny-deepseek";
    info.trainer = "tp=2";
    info.rollout = "tp=4";
    info.strategy = "direct";
    info.transport = transport;
    info.key = "tiny-deepseek/tp=2/tp=4/direct/" + transport;
    info.verify = "fingerprint";
    info.memory = "host";
    info.options = R"({"order":"rotated"})";
    info.parameters = 15'706'484'224;
    info.bytes = 31'412'968'448;
    info.unique_bytes = 7;
    info.wire_bytes = 8;
    info.port_bytes = 9;
    info.transfers = 10;
    info.copies = 11;
    info.plan_digest = 0xfedcba9876543210;
    return info;
}

inline std::vector<SetupTimes> setup(std::size_t ranks) {
    std::vector<SetupTimes> times(ranks);
    for (std::size_t i = 0; i < ranks; ++i)
        for (std::size_t phase = 0; phase < kSetupPhases; ++phase)
            times[i][phase] = 100 * i + phase;
    return times;
}

/// Every number follows from the case and the iteration, so that a misplaced one shows.
inline Sample sample(std::uint64_t in_case, std::uint64_t iteration, std::size_t ranks) {
    const std::uint64_t base = 1'000'000'000 * in_case + 1'000'000 * iteration;
    Sample value;
    value.version = iteration + 1;
    value.warmup = iteration < 2;
    value.time_ns = base + 1;
    value.closed_ns = base + 2;
    value.clock_error_ns = base + 3;
    value.release_skew_ns = base + 4;
    value.validity = static_cast<Validity>(iteration % 3);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        value.rank_time_ns.push_back(rank == 0 ? kNotMeasured : base + 100 + rank);
        PhaseTimes& phases = value.phase_ns.emplace_back();
        for (std::size_t phase = 0; phase < kPhases; ++phase)
            phases[phase] = base + 1000 * (rank + 1) + phase;
    }
    return value;
}

inline void expect_equal(const Sample& actual, const Sample& expected) {
    EXPECT_EQ(actual.version, expected.version);
    EXPECT_EQ(actual.warmup, expected.warmup);
    EXPECT_EQ(actual.time_ns, expected.time_ns);
    EXPECT_EQ(actual.closed_ns, expected.closed_ns);
    EXPECT_EQ(actual.clock_error_ns, expected.clock_error_ns);
    EXPECT_EQ(actual.release_skew_ns, expected.release_skew_ns);
    EXPECT_EQ(actual.validity, expected.validity);
    EXPECT_EQ(actual.rank_time_ns, expected.rank_time_ns);
    EXPECT_EQ(actual.phase_ns, expected.phase_ns);
}

/// The message of the ResultsError that `action` must throw.
template <class Action>
std::string results_error(Action action) {
    try {
        action();
    } catch (const ResultsError& error) {
        EXPECT_EQ(error.code(), ExitCode::ResultsFile);
        return error.what();
    }
    ADD_FAILURE() << "no ResultsError";
    return {};
}

}  // namespace weightlift::record::example
