#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/record/figures.hpp"
#include "weightlift/report/report.hpp"

#include "charts.hpp"
#include "html.hpp"
#include "sections.hpp"
#include "style.hpp"

namespace weightlift::report {

namespace {

/// More cases than this begin folded up.
constexpr std::size_t kOpenCases = 4;

std::string plural(std::size_t n, const char* noun) {
    return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

/// What a reader must know before any number.
std::string verdict(const Study& study) {
    std::size_t cases = 0, wrong = 0, failed = 0, unchecked = 0, empty = 0, unfinished = 0;
    for (const record::RunRecord& run : study.runs)
        if (run.status != "complete") ++unfinished;
    for (const Group& group : study.groups)
        for (const Entry& entry : group.entries) {
            ++cases;
            if (entry.summary.wrong > 0)
                ++wrong;
            else if (has_failed(entry))
                ++failed;
            else if (entry.one->samples.empty())
                ++empty;
            else if (!record::is_checked(entry.one->samples))
                ++unchecked;
        }
    std::vector<std::string> bad, good;
    if (wrong > 0)
        bad.push_back(fmt::format("wrong data in {} of {}", wrong, plural(cases, "case")));
    if (unfinished > 0)
        bad.push_back(
            fmt::format("{} of {} did not complete", unfinished, plural(study.runs.size(), "run")));
    if (failed > 0) bad.push_back(plural(failed, "case") + " failed");
    if (empty > 0) bad.push_back(plural(empty, "case") + " without a finished push");
    if (unchecked > 0) bad.push_back(plural(unchecked, "case") + " not checked");
    const std::size_t right = cases - wrong - failed - unchecked - empty;
    if (right > 0) good.push_back(plural(right, "case") + " with every checked push right");
    std::string out = "<p>" + escape(plural(study.runs.size(), "file")) + ".";
    if (!bad.empty())
        out += fmt::format(" <b class=\"bad\">{}.</b>",
                           escape(fmt::format("{}", fmt::join(bad, "; "))));
    if (!good.empty()) out += fmt::format(" <b class=\"good\">{}.</b>", escape(good.front()));
    return out + "</p>\n";
}

}  // namespace

std::string html_report(const std::vector<record::RunRecord>& runs) {
    const Study study(runs);
    const std::string about =
        study.groups.size() == 1 ? study.groups.front().name : plural(study.groups.size(), "case");
    std::string out = fmt::format(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
        "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Weightlift: "
        "{}</title>\n<style>{}</style>\n</head>\n<body>\n<header><h1>Weightlift report</h1>\n{}"
        "</header>\n",
        escape(about), kStyle, verdict(study));
    out += runs_section(study) + results_section(study);
    out += "<section id=\"bandwidth\"><h2>Bandwidth against message size</h2>\n" +
           bandwidth_chart(study) + "</section>\n";
    out += "<section id=\"cases\"><h2>Cases</h2>\n";
    out +=
        "<p class=\"note\">Dots are pushes: hollow for warm-ups, red where the data were wrong; "
        "an arrow head at the top is one that took longer than the axis shows. Dashed: the median; "
        "green: the floor. Below: which rank was the last.</p>\n";
    for (std::size_t i = 0; i < study.groups.size(); ++i)
        out += case_section(study.groups[i], i + 1, runs.size() > 1,
                            study.groups.size() <= kOpenCases);
    return out + "</section>\n</body>\n</html>\n";
}

}  // namespace weightlift::report
