// A launch: one case of one run, the unit that is compared. Iterations of one launch share its
// placement, memory and neighbours, so that many of them say little more than one.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "weightlift/record/h5_file.hpp"
#include "weightlift/record/run_record.hpp"

namespace weightlift::compare {

/// Medians over a rank's counted iterations; kNotMeasured where there are none.
using PhaseMedians = record::PhaseTimes;

struct Launch {
    /// The case's key; where one run has cases of one key that were set up differently (a sweep
    /// over the window, say), with what tells them apart: "KEY [window_bytes 1048576]".
    std::string name;
    std::string path, run_uuid, created_utc, status;
    int exit_code = 0;
    std::string tool_version, git;
    std::vector<std::pair<std::string, std::string>> provenance;
    std::vector<record::RankInfo> ranks;
    record::CaseInfo info;
    record::Summary summary;
    std::vector<PhaseMedians> phases;  ///< by MPI rank

    /// Median time of the counted iterations; kNotMeasured where there are none.
    [[nodiscard]] std::uint64_t time_ns() const { return summary.p50_ns; }
};

/// One launch per case of the run, in its order. A case that was repeated within the run is one
/// launch, with the iterations of all repetitions.
[[nodiscard]] std::vector<Launch> launches_of(const record::RunRecord& run);

}  // namespace weightlift::compare
