// How load is shared among holders: the closed balancing rule of the `direct` strategy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/base/bytes.hpp"

namespace weightlift::plan {

/// A set of ranks of which any may serve `demand` bytes.
struct HolderGroup {
    std::vector<Rank> holders;  ///< ascending, not empty
    double demand = 0;          ///< bytes, summed over destinations
};

/// Integer weights per group, in the order of its holders: the share of each is weight / sum. All
/// equal to 1 where the holders of a group end up equally loaded by equal shares (the usual,
/// symmetric case). Otherwise the loads minimise the sum of squares over ranks, which also
/// minimises the largest load. Deterministic: every rank computes the same numbers from the same
/// groups. O(sum of group sizes) per round, a bounded number of rounds.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> level_shares(
    std::span<const HolderGroup> groups);

/// A slice [begin, end) of `units` (rows, or columns of a single row) served by holder index
/// `holder`.
struct Slice {
    std::uint32_t holder = 0;
    std::uint64_t begin = 0, end = 0;
};

/// Cuts `units` units of `unit_bytes` among holders with these weights; appends to `slices` in
/// ascending order, covering [0, units) exactly. Large cells are cut in proportion to the weights,
/// beginning with a holder that rotates with (tensor, destination). Where that would make a slice
/// below `minimum_slice`, fewer holders take part, chosen so that over many cells each still gets
/// its share.
void cut_slices(std::uint64_t units, Bytes unit_bytes, std::span<const std::uint32_t> weights,
                std::uint64_t tensor, std::uint64_t destination, Bytes minimum_slice,
                std::vector<Slice>& slices);

}  // namespace weightlift::plan
