// The verdicts: pure functions over facts.
#pragma once

#include <vector>

#include "facts.hpp"
#include "finding.hpp"

namespace weightlift::app::doctor {

/// Launch, limits, shared memory: what every transport needs.
[[nodiscard]] std::vector<Finding> check_machine(const Facts& facts, const Asked& asked);
/// RDMA devices and their ports.
[[nodiscard]] std::vector<Finding> check_nics(const Facts& facts, const Asked& asked);
/// GPUs, and what lies between them and the NICs.
[[nodiscard]] std::vector<Finding> check_gpus(const Facts& facts);
[[nodiscard]] Finding check_output(const OutputFacts& output);

/// All of a rank but the output folder, in the order in which they are printed.
[[nodiscard]] RankReport check_rank(const Facts& facts, const Asked& asked);

/// "mlx5_0:1" of the ports that a push may use: active, and with a usable GID or LID.
[[nodiscard]] std::vector<std::string> usable_rails(const Facts& facts, const Asked& asked);

}  // namespace weightlift::app::doctor
