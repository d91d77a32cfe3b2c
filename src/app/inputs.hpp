// What a command works on: a model and two layouts, from rules or from files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weightlift/layout/layout.hpp"
#include "weightlift/model/model_spec.hpp"

namespace weightlift::app {

/// As given on the command line (push, plan).
struct SceneOptions {
    std::string model;  ///< shipped name, path or tensor:SIZE; may be empty with two layout files
    std::optional<std::uint64_t> layers;
    bool with_mtp = false;
    std::string dtype;                  ///< empty: the config's
    std::string trainer;                ///< "tp=8,…" or "@file.json"
    std::vector<std::string> rollouts;  ///< one per group, or a single "@file.json"
};

struct Scene {
    model::ModelSpec model;
    layout::Layout trainer, rollout;
    std::vector<std::string> notes;
};

/// `launched`: number of ranks, for dp=auto. Throws ConfigError; allocates no weights.
[[nodiscard]] Scene load_scene(const SceneOptions& options, std::optional<int> launched = {});

}  // namespace weightlift::app
