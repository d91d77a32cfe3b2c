// Results files, HDF5 schema 1 (README, "Results file"). The HDF5 headers stay inside
// src/record/h5.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weightlift/record/recorder.hpp"

namespace weightlift::record {

/// Creates PATH.part exclusively (and the folder is not made). ResultsError where PATH or PATH.part
/// exists or the folder is not writable. Without finish() the .part file stays, readable by
/// read_results with allow_partial.
[[nodiscard]] std::unique_ptr<Recorder> create_results(const std::string& path);

struct CaseRecord {
    CaseInfo info;
    std::vector<SetupTimes> setup_ns;
    std::vector<Sample> samples;  ///< in order, warm-ups included
    std::vector<FingerprintRow> fingerprints;
    std::vector<TrafficRow> traffic;
    std::vector<NicRow> nics;
    std::vector<RankInfo> ranks;         ///< where they differ from the run's
    std::optional<CaseOutcome> outcome;  ///< absent: the run's, or the case has not ended
};

struct RunRecord {
    std::string path, status, finished_utc;
    int schema = 0, exit_code = -1;
    RunInfo run;
    std::vector<CaseRecord> cases;
    std::vector<Event> events;
};

/// Reads a results file. A running or aborted one (status "running", or a .part) only with
/// allow_partial, which gives exactly the iterations that were finished. ResultsError otherwise.
[[nodiscard]] RunRecord read_results(const std::string& path, bool allow_partial);

/// Version of the HDF5 library linked in, e.g. "1.10.8".
[[nodiscard]] std::string hdf5_version();

}  // namespace weightlift::record
