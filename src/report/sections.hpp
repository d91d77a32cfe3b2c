// Sections of the page.
#pragma once

#include <string>

#include "study.hpp"

namespace weightlift::report {

/// What ran where: a row per file; behind it command lines, provenance and ranks.
[[nodiscard]] std::string runs_section(const Study& study);
/// The table of results, files side by side under their case.
[[nodiscard]] std::string results_section(const Study& study);
/// One case: iterations, phases and traffic of every file that has it. Folded up if not `is_open`.
[[nodiscard]] std::string case_section(const Group& group, std::size_t number, bool has_many_files,
                                       bool is_open);

}  // namespace weightlift::report
