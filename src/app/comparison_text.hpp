// A comparison as people and machines read it.
#pragma once

#include <string>

#include "weightlift/compare/compare.hpp"

namespace weightlift::app {

/// "results/base: 5 launches in 5 files", for the head of the text.
struct ComparedSides {
    std::string base, next;
};

[[nodiscard]] std::string comparison_text(const compare::Comparison& comparison,
                                          const ComparedSides& sides, ExitCode code);
[[nodiscard]] std::string comparison_markdown(const compare::Comparison& comparison,
                                              const ComparedSides& sides, ExitCode code);
/// Schema weightlift-comparison/1; numbers that do not exist are null.
[[nodiscard]] std::string comparison_json(const compare::Comparison& comparison,
                                          const compare::Options& options, ExitCode code);

}  // namespace weightlift::app
