// Recorder: a sink of RunRecord values. It knows nothing of who produced them. Rank 0 only.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "weightlift/base/error.hpp"
#include "weightlift/record/run_record.hpp"

namespace weightlift::record {

class Recorder {
public:
    virtual ~Recorder() = default;
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    virtual void begin_run(const RunInfo& run) = 0;
    /// Returns the case number, from 0. `ranks` fixes the width of its samples.
    virtual int begin_case(const CaseInfo& info, std::size_t ranks,
                           const std::vector<SetupTimes>& setup_ns) = 0;
    /// Flushed to disk when it returns: a run killed later keeps this iteration.
    virtual void iteration(int case_number, const Sample& sample) = 0;
    virtual void event(const Event& event) = 0;
    /// At most once per case, after its last iteration.
    virtual void fingerprints(int case_number, std::span<const FingerprintRow> rows) = 0;
    virtual void traffic(int case_number, std::span<const TrafficRow> rows) = 0;
    virtual void nics(int case_number, std::span<const NicRow> rows) = 0;
    /// Who played what in this case, where cases of one run differ in it.
    virtual void case_ranks(int case_number, std::span<const RankInfo> rows) = 0;
    /// This case takes no more. On disk when it returns, with all that was said of it: a run killed
    /// later keeps it as a case that has ended. Without it, finish() ends the case.
    virtual void end_case(int case_number, const CaseOutcome& outcome) = 0;
    /// status: complete, failed or aborted. Writes summary and status, closes, syncs and gives the
    /// file its name.
    virtual void finish(std::string_view status, ExitCode exit_code) = 0;

protected:
    Recorder() = default;
};

}  // namespace weightlift::record
