// The proof: a write with a data check between neighbouring ranks, through the transports
// themselves.
#pragma once

#include <string>
#include <vector>

#include "weightlift/mpi/deadline.hpp"
#include "weightlift/session/agreement.hpp"
#include "weightlift/session/topology.hpp"

#include "facts.hpp"
#include "finding.hpp"

namespace weightlift::app::doctor {

/// Who is examined together.
struct Ward {
    const session::Agreement& agreement;
    mpi::Watchdog& watchdog;
    const session::Topology& topology;
};

/// Collective. Every rank writes to the next (the last one to the first) through the transport
/// asked for, or each one built in: shm within a host, verbs over each of `rails` (usable_rails) in
/// turn. Returns this rank's findings. Throws DeadlineError where a rank is lost.
[[nodiscard]] std::vector<Finding> check_writes(const Ward& ward,
                                                const std::vector<std::string>& rails,
                                                const Asked& asked);

}  // namespace weightlift::app::doctor
