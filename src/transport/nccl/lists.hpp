// The lists of messages that a source works out for its destinations, and what it tells them. Pure.
#pragma once

#include <vector>

#include "weightlift/mpi/communicator.hpp"

#include "messages.hpp"

namespace weightlift::transport::nccl {

/// By destination; `rules` as well. `self`: this rank of the world.
[[nodiscard]] std::vector<PairMessages> cut_lists(const BoundPlan& plan,
                                                  const std::vector<MessageRules>& rules, int self);

[[nodiscard]] mpi::Bytestring serialize(const PairMessages& list);
/// Throws TransportError where it is cut short. What it says is still to be checked.
[[nodiscard]] PairMessages deserialize(const mpi::Bytestring& bytes);

}  // namespace weightlift::transport::nccl
