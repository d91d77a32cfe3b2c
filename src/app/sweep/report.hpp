// Rank 0's account of a sweep: one results file for all cases, progress and time left on stderr,
// the table on stdout. Does nothing on other ranks.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weightlift/session/topology.hpp"

#include "../case_report.hpp"
#include "cases.hpp"
#include "options.hpp"

namespace weightlift::app::sweep {

/// The code of a sweep is the gravest of its cases': 1, 6, 5, 4, 8, 7, 3, 2, 0 in this order.
[[nodiscard]] ExitCode gravest(ExitCode a, ExitCode b);

class Report {
public:
    /// References must outlive the report.
    Report(const Options& options, const Job& job, const std::vector<Case>& cases, bool is_root)
        : options_(options), job_(job), cases_(cases), is_root_(is_root) {}

    /// Makes the results file, or takes over what a killed sweep left. Which cases have ended.
    [[nodiscard]] std::vector<bool> open(const std::string& command_line,
                                         const session::Topology& topology);
    void start();
    [[nodiscard]] CaseReport& current() { return *current_; }
    void end(const Case& one, ExitCode code, std::string reason);
    /// Prints what there is to print; the sweep's exit code.
    [[nodiscard]] ExitCode finish();
    /// The sweep ends early; what has ended stays, for --resume.
    void abandon() noexcept;

private:
    void take_over(std::vector<bool>& ended, const session::Topology& topology);
    void accept_finished();
    void list_skipped();
    void say(const Case& one, const std::string& what);
    [[nodiscard]] std::string time_left() const;

    const Options& options_;
    const Job& job_;
    const std::vector<Case>& cases_;
    bool is_root_;
    record::RunRecord run_;
    std::unique_ptr<record::Recorder> recorder_;
    std::optional<CaseReport> current_;
    std::vector<bool> ended_;
    std::optional<ExitCode> finished_;                 ///< --resume found a file with all cases
    std::chrono::steady_clock::time_point started_{};  ///< the current case
    double seconds_ = 0, work_ = 0;  ///< that the cases of this launch took, and their work
};

}  // namespace weightlift::app::sweep
