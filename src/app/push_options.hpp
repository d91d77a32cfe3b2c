// The flags of push, parsed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weightlift/session/options.hpp"

#include "commands.hpp"
#include "gates.hpp"
#include "inputs.hpp"
#include "options.hpp"

namespace weightlift::app {

struct PushArguments {
    SceneOptions scene;
    session::PushOptions push;
    bool has_auto_strategy = false;
    std::string roles, role;  ///< at most one of them
    std::uint64_t iterations = 20, warmup = 2;
    std::chrono::nanoseconds interval{}, duration{};  ///< duration 0: count iterations
    std::string output;                               ///< empty: results/<model>-<time>.h5
    std::string cluster;                              ///< rates for the floor
    GateOptions gates;                                ///< hold rank 0's results against bounds
    std::string labels;                               ///< free text stored with the run
    bool as_json = false, is_quiet = false, has_reference = false;
    bool has_preflight = false;  ///< doctor's checks first
};

/// Throws ConfigError. `arguments` without "push".
[[nodiscard]] Parsed parse_push(const Arguments& arguments, PushArguments& out);

/// What must be equal on all ranks (everything but --role): flag and digest of its value.
[[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> digests_of(
    const PushArguments& arguments);

/// The flags as JSON text, for the results file.
[[nodiscard]] std::string options_json(const PushArguments& arguments);

}  // namespace weightlift::app
