// Does a parameter's content cover each of its bytes exactly once?
#pragma once

#include "weightlift/layout/layout.hpp"

namespace weightlift::layout {

/// Throws ConfigError naming parameter, piece and rule: each piece inside its tensor, of the
/// parameter's dtype, not empty, its pitch not below its row; pieces and padding inside the
/// parameter, covering every byte once. O(n log n) in pieces. Supported are contiguous pieces at
/// any offset, and strided ones that share one pitch and do not cross its rows.
void check_content(const Parameter& parameter, const ModelSpec& model);

}  // namespace weightlift::layout
