// RunRecord values: configuration, provenance, samples, checksums, outcome of one run. Plain data;
// summaries are recomputable because all samples are kept. Times are nanoseconds in rank 0's clock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightlift/base/bytes.hpp"

namespace weightlift::record {

/// A number that was not measured; shown as "-" or N/A, never as 0.
inline constexpr std::uint64_t kNotMeasured = ~std::uint64_t{0};

/// Phases of one iteration on one rank. Setup phases (plan, register, connect, exchange) are kept
/// per case.
enum class Phase : std::uint8_t {
    Prepare,
    Post,
    Wire,
    Visibility,
    Commit,
    Finalize,
    Verify,
    SourceBusy,
    Pause,
    Cpu
};
inline constexpr std::size_t kPhases = 10;
[[nodiscard]] std::string_view to_string(Phase phase);  ///< "prepare", "source_busy", …

enum class SetupPhase : std::uint8_t { Plan, Allocate, Register, Connect, Exchange };
inline constexpr std::size_t kSetupPhases = 5;
[[nodiscard]] std::string_view to_string(SetupPhase phase);

using PhaseTimes = std::array<std::uint64_t, kPhases>;
using SetupTimes = std::array<std::uint64_t, kSetupPhases>;

enum class Validity : std::uint8_t { Unchecked, Valid, Wrong };

struct RankInfo {
    std::string role;  ///< trainer, rollout
    std::int32_t rank = 0, plan_rank = 0, engine = -1, engine_rank = -1;
    std::string host;
    std::int32_t node = 0, local_rank = 0;
    std::string gpu_uuid, gpu_pci, nic;  ///< empty: none
    std::int32_t gid_index = -1, mtu = 0;
    std::string registration;
    Bytes weight_bytes = 0;
};

struct RunInfo {
    std::string run_uuid, created_utc, tool_version, git, command_line, labels;
    std::vector<std::pair<std::string, std::string>> provenance;  ///< name, value
    std::vector<RankInfo> ranks;
};

struct CaseInfo {
    std::string key;  ///< model/trainer/rollout/strategy/transport
    std::string model, trainer, rollout, strategy, transport, verify, memory;
    std::string options;  ///< JSON text of the remaining flags
    std::uint64_t parameters = 0;
    Bytes bytes = 0;         ///< payload of all rollouts
    Bytes unique_bytes = 0;  ///< of the model
    Bytes wire_bytes = 0;    ///< that crossed between different ranks
    Bytes port_bytes = 0;    ///< through the busiest port
    std::uint64_t transfers = 0, copies = 0;
    std::uint64_t plan_digest = 0;
    std::uint64_t floor_ns = kNotMeasured;
    std::uint64_t line_rate = kNotMeasured;  ///< bytes per second of the busiest port, where known
    /// Of a case of a sweep: its line of the job, by which --resume knows it again, and which of
    /// the job's repetitions it is (from 0). All repetitions are of one launch.
    std::string settings;
    std::uint64_t repetition = 0;
};

/// How a case of a sweep ended.
struct CaseOutcome {
    std::string status;  ///< complete, failed
    std::int32_t exit_code = 0;
    std::string reason;  ///< of a failure
};

/// One iteration. rank_* have one entry per MPI rank.
struct Sample {
    std::uint64_t version = 0;
    bool warmup = false;
    std::uint64_t time_ns = 0;
    std::uint64_t closed_ns = 0;  ///< rank 0's barrier, push, barrier; never shorter than time_ns
    std::uint64_t clock_error_ns = 0, release_skew_ns = 0;
    Validity validity = Validity::Unchecked;
    std::vector<std::uint64_t> rank_time_ns;
    std::vector<PhaseTimes> phase_ns;
};

struct FingerprintRow {
    std::string tensor;
    std::uint64_t trainer = 0;
    std::uint64_t rollout = 0;  ///< the common value, or the first that differs
    std::int32_t engine = -1;   ///< of the first that differs; -1: all agree
    bool equal = false;
};

struct TrafficRow {
    std::int32_t src = 0, dst = 0;  ///< plan ranks
    std::string transport;
    Bytes bytes = 0;
};

/// Payload that left one rank through one NIC over a whole case, warm-ups included.
struct NicRow {
    std::int32_t rank = 0;  ///< MPI rank
    std::string nic;
    Bytes completed = 0;           ///< by completions
    Bytes counted = kNotMeasured;  ///< by the port's own counter, all its users and headers
};

struct Event {
    std::string time_utc, kind, text;  ///< kind: retry, fallback, adjustment, mismatch, failure
    std::int32_t rank = 0;
};

/// Statistics over the iterations of a case that were measured and are not wrong or warm-ups.
struct Summary {
    std::uint64_t iterations = 0;           ///< in the statistics
    std::uint64_t wrong = 0;                ///< of all pushes, warm-ups too
    std::uint64_t first_ns = kNotMeasured;  ///< the very first push, warm-up or not
    std::uint64_t min_ns = kNotMeasured, p50_ns = kNotMeasured;
    std::uint64_t p99_ns = kNotMeasured;  ///< under 100 samples: not measured
    std::uint64_t max_ns = kNotMeasured;
    double algbw = 0, portbw = 0;  ///< bytes per second at p50; 0 where nothing is valid
    std::int32_t slowest_rank = -1;
    std::uint64_t slowest_count = 0;  ///< iterations in which that rank was the last
    double slowest_ratio = 0;         ///< its median time over the median of all ranks' medians
};

/// Whether an iteration enters the statistics: measured, no warm-up and not wrong.
[[nodiscard]] inline bool is_counted(const Sample& sample) {
    return !sample.warmup && sample.validity != Validity::Wrong && sample.time_ns != kNotMeasured;
}

/// Pure. Percentiles by nearest rank.
[[nodiscard]] Summary summarize(const CaseInfo& info, const std::vector<Sample>& samples);

}  // namespace weightlift::record
