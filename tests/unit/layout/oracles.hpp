// What a rank of each framework holds, by literal slicing of whole checkpoint tensors.
#pragma once

#include "weightlift/layout/parallel_config.hpp"

#include "arrays.hpp"

namespace weightlift::layout::oracle {

/// `config.dp` must be set.
[[nodiscard]] Parameters megatron_rank(const ModelSpec& model, const TrainerConfig& config,
                                       int rank);
/// `rank` counts within one engine.
[[nodiscard]] Parameters sglang_rank(const ModelSpec& model, const RolloutConfig& config, int rank);

}  // namespace weightlift::layout::oracle
