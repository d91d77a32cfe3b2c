// One sentence for each rule that a parallel configuration breaks, with both numbers.
#pragma once

#include <cstdint>

#include "weightlift/layout/parallel_config.hpp"
#include "weightlift/model/model_spec.hpp"

namespace weightlift::layout {

/// The architecture, or ConfigError: rules need one (a bare tensor list needs a layout file).
[[nodiscard]] const model::Architecture& require_architecture(const model::ModelSpec& model);

/// Everything that makes a configuration impossible for this model.
void check_megatron(const model::Architecture& architecture, const TrainerConfig& config);
void check_sglang(const model::Architecture& architecture, const RolloutConfig& config);

/// Rows of the embedding that Megatron allocates: a multiple of 128 * tp.
[[nodiscard]] std::uint64_t megatron_padded_vocabulary(std::uint64_t vocabulary, int tp);
/// Rows of the embedding that SGLang allocates: a multiple of 64.
[[nodiscard]] std::uint64_t sglang_padded_vocabulary(std::uint64_t vocabulary);

}  // namespace weightlift::layout
