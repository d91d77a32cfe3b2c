// The columns of the table of cases, the same ones in every format. Defined in README ("The
// numbers").
#pragma once

#include <span>
#include <string>

#include "study.hpp"

namespace weightlift::report {

/// A value as it is shown, and unrounded in the units of the file; `exact` is empty where there is
/// none.
struct Cell {
    std::string shown, exact;
};

struct ResultColumn {
    const char* name;
    const char* unit;
    const char* field;  ///< in CSV, with its unit
    const char* definition;
    Cell (*cell)(const Entry& entry);
};

[[nodiscard]] std::span<const ResultColumn> result_columns();

[[nodiscard]] Cell ms_cell(std::uint64_t ns);
[[nodiscard]] Cell count_cell(std::uint64_t count);
[[nodiscard]] Cell bytes_cell(Bytes bytes);
/// "rank 17, n042, mlx5_3: 1.40 × median, in 18 of 20", why the case failed, or "-".
[[nodiscard]] std::string slowest_text(const Entry& entry);

}  // namespace weightlift::report
