// Rank 0's account of one case while it runs: to the results file, and kept for the table.
#pragma once

#include <string>
#include <vector>

#include "weightlift/record/h5_file.hpp"
#include "weightlift/session/session.hpp"

namespace weightlift::app {

class CaseReport {
public:
    /// `events` collects those of the run. References must outlive the report.
    CaseReport(record::Recorder& recorder, std::vector<record::Event>& events)
        : recorder_(recorder), events_(events) {}

    void begin(session::Session::Description description);
    /// A case that failed before it could be described: all there is to say of it.
    void begin(record::CaseInfo info, std::vector<record::SetupTimes> setup_ns);
    /// Error where it is faster than the rates of `cluster` allow.
    void iteration(const record::Sample& sample, const session::Verification& checked,
                   const std::string& cluster);
    /// What a plain copy of the same bytes took.
    void reference(std::uint64_t ns);
    void event(const std::string& kind, const std::string& text, int rank = 0);
    void nics(std::vector<record::NicRow> rows) { case_.nics = std::move(rows); }
    /// Hands over what is written at the end of a case.
    void hand_over();
    /// As hand_over, and ends the case.
    void end(const record::CaseOutcome& outcome);

    [[nodiscard]] bool has_begun() const { return number_ >= 0; }
    [[nodiscard]] const record::CaseRecord& record() const { return case_; }
    /// The first wrong push's sentence; empty while there is none.
    [[nodiscard]] const std::string& mismatch() const { return mismatch_; }
    void keep_ranks(std::vector<record::RankInfo> ranks) { case_.ranks = std::move(ranks); }

private:
    record::Recorder& recorder_;
    std::vector<record::Event>& events_;
    int number_ = -1;
    record::CaseRecord case_;
    std::string mismatch_;
};

}  // namespace weightlift::app
