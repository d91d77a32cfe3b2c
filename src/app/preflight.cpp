#include "preflight.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "doctor/examination.hpp"

namespace weightlift::app {

using doctor::Verdict;

void run_preflight(const doctor::Ward& ward, const doctor::Asked& asked) {
    auto examination = doctor::examine(ward, asked, [](const doctor::Examination&) {});
    if (ward.agreement.world().rank() == 0) {
        const std::string footer = doctor::footer(examination.findings);
        std::erase_if(examination.findings, [](const doctor::Folded& folded) {
            return folded.finding.verdict == Verdict::Ok || folded.finding.verdict == Verdict::Skip;
        });
        if (!examination.findings.empty())
            fmt::print(stderr, "{}preflight: {}\n",
                       doctor::table(examination.findings, examination.reports), footer);
    }
    if (examination.verdict == Verdict::Fail)
        throw session::AgreedError(ExitCode::Preflight,
                                   "preflight failed: nothing was pushed (weightlift doctor shows "
                                   "all checks)");
}

}  // namespace weightlift::app
