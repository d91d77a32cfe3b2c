// The flags of push that speak of RDMA devices.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "weightlift/transport/options.hpp"

namespace weightlift::app {

/// Adds them to `app`. What it returns is called after parsing: it fills `out`, or throws
/// ConfigError naming the flag.
[[nodiscard]] std::function<void()> add_verbs_options(CLI::App& app, transport::VerbsOptions& out);

/// For the results file. Without `with_own`, only what must be equal on all ranks: devices may have
/// other names on another host, and the numbers of queue pairs are compared pair by pair.
[[nodiscard]] nlohmann::ordered_json verbs_json(const transport::VerbsOptions& options,
                                                bool with_own);

}  // namespace weightlift::app
