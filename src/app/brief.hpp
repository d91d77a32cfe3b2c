// A results file in at most 40 lines, for a bug report or a paper's appendix.
#pragma once

#include <string>

#include "weightlift/record/h5_file.hpp"

namespace weightlift::app {

inline constexpr std::size_t kBriefLines = 40;

/// Version, command, layouts, transports used, digests, table, slowest ranks, status.
[[nodiscard]] std::string brief(const record::RunRecord& run);

/// `text` with each host name of the run, long and short form, in any case, replaced by a hash that
/// is the same for one host within one run and says nothing outside of it.
[[nodiscard]] std::string without_hosts(std::string text, const record::RunRecord& run);

}  // namespace weightlift::app
