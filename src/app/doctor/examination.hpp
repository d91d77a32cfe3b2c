// Doctor's work on all ranks, and what came of it on rank 0.
#pragma once

#include <functional>
#include <vector>

#include "facts.hpp"
#include "finding.hpp"
#include "write_check.hpp"

namespace weightlift::app::doctor {

struct Examination {
    std::vector<RankReport> reports;  ///< by rank; on rank 0
    std::vector<Folded> findings;     ///< on rank 0
    Verdict verdict = Verdict::Skip;  ///< the worst; on all ranks
};

/// This process alone, without MPI.
[[nodiscard]] Examination examine_alone(const Asked& asked);

/// Collective. `before_writes` is called on rank 0 when all is looked at, and the writes, which may
/// hang until their deadline, are still to come. Throws DeadlineError where a rank is lost.
[[nodiscard]] Examination examine(const Ward& ward, const Asked& asked,
                                  const std::function<void(const Examination&)>& before_writes);

}  // namespace weightlift::app::doctor
