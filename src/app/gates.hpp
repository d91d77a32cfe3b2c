// What a push must reach, or its exit code is 7: --min-line, --max-time and a file of references.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weightlift/compare/references.hpp"

namespace weightlift::app {

/// As given on the command line; empty: not asked for.
struct GateOptions {
    std::string min_line;    ///< "85%" of the port rate of --cluster
    std::string max_time;    ///< "90ms" for the median
    std::string references;  ///< path of a JSON file
};

struct Gates {
    std::vector<compare::Reference> references;
    std::optional<double> least_line_percent, most_p50_ms;
};

/// ConfigError naming the flag. Reads no file.
[[nodiscard]] Gates parse_gates(const GateOptions& options);

/// The same, with the references of the file: ConfigError naming it where it is not one.
[[nodiscard]] Gates load_gates(const GateOptions& options);

/// What was not kept, the flags first.
[[nodiscard]] std::vector<compare::OutOfBounds> broken_gates(const Gates& gates,
                                                             const record::CaseInfo& info,
                                                             const record::Summary& summary);

}  // namespace weightlift::app
