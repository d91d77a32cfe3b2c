// The part of nic_distances that does not depend on where the process runs.
#pragma once

#include <span>
#include <vector>

#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {

/// Distance of every NIC to memory on these NUMA nodes (numbers of the system); none given: to that
/// of this process.
[[nodiscard]] std::vector<int> distances_to_memory(std::span<const Nic> nics,
                                                   std::span<const unsigned> nodes);

}  // namespace weightlift::transport
