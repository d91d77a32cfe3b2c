// The table of published runs: what each strategy would take, beside what was published.
#pragma once

#include <string>

#include "prediction_text.hpp"

namespace weightlift::app {

/// A markdown table of all job files (*.toml) of a folder, in order of their names. Each needs a
/// cluster; the line "# published: …" of each is quoted.
[[nodiscard]] std::string scenario_table(const std::string& folder,
                                         const SimulationOptions& options);

}  // namespace weightlift::app
