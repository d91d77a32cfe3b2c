// Contiguous copies at even distances, as one strided copy: to a copy engine a layer's parameter in
// every layer is one operation with a pitch, and operations cost it more than rows do. Pure.
#pragma once

#include <vector>

#include "weightlift/plan/copy.hpp"

namespace weightlift::transport::cuda_ipc {

/// The same bytes to the same places in fewer copies. Those of one row (of at most `max_row` bytes)
/// that follow each other at one distance at both ends (at most `max_pitch`) become rows of one
/// copy, which stands where the first of them stood.
[[nodiscard]] std::vector<plan::Copy> join_even_copies(std::vector<plan::Copy> copies,
                                                       Bytes max_row, Bytes max_pitch);

}  // namespace weightlift::transport::cuda_ipc
