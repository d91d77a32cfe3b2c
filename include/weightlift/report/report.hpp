// What people read of results files: one page, or the table for a text or a spreadsheet. Values in,
// text out: the same files give the same report.
#pragma once

#include <string>
#include <vector>

#include "weightlift/record/h5_file.hpp"

namespace weightlift::report {

/// One page of HTML that needs nothing besides itself: no script, no font, no picture from outside.
[[nodiscard]] std::string html_report(const std::vector<record::RunRecord>& runs);
/// What ran where, and the table of cases, in GitHub's Markdown.
[[nodiscard]] std::string markdown_report(const std::vector<record::RunRecord>& runs);
/// One line per case (RFC 4180): nanoseconds, bytes, bytes per second, unrounded; a number that was
/// not measured is an empty field.
[[nodiscard]] std::string csv_report(const std::vector<record::RunRecord>& runs);

}  // namespace weightlift::report
