// The table of cases, as push prints it and show prints it again from a results file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weightlift/record/h5_file.hpp"
#include "weightlift/record/run_record.hpp"

namespace weightlift::app {

/// Header and one row per case, with footers. Of a single case: slowest rank, transports and their
/// bytes, verification, clock warning. Of several: what failed and why.
[[nodiscard]] std::string case_table(const std::vector<record::CaseRecord>& cases,
                                     const std::vector<record::RankInfo>& ranks);

/// The same content as a JSON object (push --json, show --json); numbers not measured are null.
[[nodiscard]] std::string case_json(const record::RunRecord& run);

}  // namespace weightlift::app
