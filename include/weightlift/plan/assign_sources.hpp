// Which trainer serves which target in the replica strategy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/base/bytes.hpp"

namespace weightlift::plan {

/// The source of each target among the `sources` equal ranks of a pipeline stage. Targets are given
/// engine by engine, by their rank in the engine. The first ones go to sources in turn; after that
/// a target goes to the source that serves the fewest engines at that same rank, or to sources in
/// turn where none serves that rank.
[[nodiscard]] std::vector<std::uint32_t> assign_sources(std::uint32_t sources,
                                                        std::span<const Rank> engine_ranks);

}  // namespace weightlift::plan
