// What a source sends to several destinations alike: found in its plan, so that one ncclBroadcast
// carries it instead of a send to each. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "messages.hpp"

namespace weightlift::transport::nccl {

/// A source's destinations that get the same ranges of it in these rounds of the plan.
struct Broadcasts {
    std::vector<std::size_t> destinations;  ///< ascending; empty: there are none
    std::vector<std::uint32_t> rounds;      ///< ascending
};

/// Of a source with these copies and segments by destination. A round counts where at least `least`
/// destinations get the same ranges in it, in the same order, each long enough to travel from arena
/// to arena, or a single one; where there are several such sets of destinations, those of the most
/// bytes. `self`: the source, which is no destination of its broadcasts. Rules differ in `slot`
/// only.
[[nodiscard]] Broadcasts find_broadcasts(std::span<const std::vector<plan::Copy>> copies,
                                         std::span<const std::vector<Segment>> segments,
                                         std::span<const int> destinations, int self,
                                         std::size_t least, const MessageRules& rules);

/// Throws TransportError, naming `peer`, where broadcasts of a list that `source` has told are not
/// its own, or are not for `self`.
void check_broadcasts(const PairMessages& list, int source, int self, const std::string& peer);

}  // namespace weightlift::transport::nccl
