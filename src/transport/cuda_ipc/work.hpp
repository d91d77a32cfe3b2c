// Who carries which copy: the copy engines, which leave the SMs to others, or one kernel over many
// small pieces, where starting a copy takes longer than its bytes. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/transport/bound_plan.hpp"

#include "../pieces.hpp"

namespace weightlift::transport::cuda_ipc {

struct SplitRules {
    Bytes small = 0;        ///< copies of fewer bytes than this go to the kernel
    Bytes short_row = 0;    ///< as do those of several rows shorter than this
    Bytes max_pitch = 0;    ///< of the engines' strided copies
    Bytes op_bytes = 0;     ///< most bytes of one engine operation
    Bytes batch_bytes = 0;  ///< after so many bytes engines say how far they are
    std::uint32_t batch_ops = 1;
};

/// Engine operations ops[first, first + count) to one destination, or pieces of the kernel.
struct Batch {
    std::uint32_t destination = 0;
    bool is_kernel = false;
    std::size_t first = 0, count = 0;
    Bytes bytes = 0;
    std::size_t needs = 0;  ///< segments of the plan that must be allowed, its own the last
};

struct Work {
    std::vector<plan::Copy> ops;
    std::vector<Piece> pieces;
    /// Of what is split at once: one of the kernel per destination before all, then the engines'.
    std::vector<Batch> batches;
};

/// Copies in the plan's order, but for those that are joined: rows that follow each other at both
/// ends become one, copies at even distances one.
[[nodiscard]] Work split_copies(std::span<const plan::Copy> copies, std::size_t destinations,
                                const SplitRules& rules);
/// The same of each segment by itself, in their order; ends are in `copies`. Without any: all at
/// once.
[[nodiscard]] Work split_segments(std::span<const plan::Copy> copies,
                                  std::span<const Segment> segments, std::size_t destinations,
                                  const SplitRules& rules);

}  // namespace weightlift::transport::cuda_ipc
