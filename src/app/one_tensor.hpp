// --model tensor:SIZE: one tensor in rows of 4 KiB, cut by rows over the ranks of each side, so
// that sizes can be swept without a model around them.
#pragma once

#include <optional>
#include <string>

#include "inputs.hpp"

namespace weightlift::app {

[[nodiscard]] bool is_one_tensor(const std::string& model);

/// tp and dp of the trainer, tp and engines of the rollout; ConfigError for any other key, and
/// where tp does not divide the rows.
[[nodiscard]] Scene make_one_tensor(const SceneOptions& options, std::optional<int> launched);

}  // namespace weightlift::app
