#include "case_report.hpp"

#include <fmt/format.h>

#include "text.hpp"

namespace weightlift::app {

using record::kNotMeasured;

void CaseReport::begin(session::Session::Description description) {
    case_.traffic = std::move(description.traffic);
    begin(std::move(description.info), std::move(description.setup_ns));
    for (const record::Event& e : description.events) {
        event(e.kind, e.text, e.rank);
        if (e.kind == "fallback") fmt::print(stderr, "weightlift: note: {}\n", e.text);
    }
}

void CaseReport::begin(record::CaseInfo info, std::vector<record::SetupTimes> setup_ns) {
    case_.info = std::move(info);
    case_.setup_ns = std::move(setup_ns);
    number_ = recorder_.begin_case(case_.info, case_.setup_ns.size(), case_.setup_ns);
}

void CaseReport::iteration(const record::Sample& sample, const session::Verification& checked,
                           const std::string& cluster) {
    const std::uint64_t floor = case_.info.floor_ns;
    if (floor != kNotMeasured && sample.time_ns != 0 &&
        static_cast<double>(sample.time_ns) < 0.95 * static_cast<double>(floor))
        throw Error(ExitCode::Internal,
                    fmt::format("a push took {} ms, less than 0.95 of the floor of {} ms on {}: "
                                "the rates given or the measurement are wrong",
                                show_ms(sample.time_ns), show_ms(floor), cluster));
    recorder_.iteration(number_, sample);
    case_.samples.push_back(sample);
    if (!checked.fingerprints.empty() && (checked.is_right || mismatch_.empty()))
        case_.fingerprints = checked.fingerprints;
    if (!checked.is_right && mismatch_.empty()) {
        mismatch_ = fmt::format("wrong data in version {}: {} ({} wrong elements in all)",
                                sample.version, checked.mismatch, checked.wrong_elements);
        event("mismatch", checked.mismatch);
    }
}

void CaseReport::reference(std::uint64_t ns) {
    event("reference", fmt::format("memcpy of the same bytes by the trainers: {} ns", ns));
}

void CaseReport::event(const std::string& kind, const std::string& text, int rank) {
    const record::Event event{utc_now(), kind, text, rank};
    recorder_.event(event);
    events_.push_back(event);
}

void CaseReport::hand_over() {
    recorder_.fingerprints(number_, case_.fingerprints);
    recorder_.traffic(number_, case_.traffic);
    recorder_.nics(number_, case_.nics);
}

void CaseReport::end(const record::CaseOutcome& outcome) {
    hand_over();
    recorder_.case_ranks(number_, case_.ranks);
    recorder_.end_case(number_, outcome);
    case_.outcome = outcome;
}

}  // namespace weightlift::app
