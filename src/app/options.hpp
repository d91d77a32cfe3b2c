// Flags shared by the commands, over CLI11 (whose headers stay in options.cpp and its users).
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "weightlift/base/error.hpp"

#include "inputs.hpp"

namespace weightlift::app {

/// Adds --model, --layers, --mtp, --dtype, --trainer, --rollout and --config.
void add_scene_options(CLI::App& app, SceneOptions& options);

/// No command has such a flag; the text names the nearest that it has.
class UnknownFlag : public ConfigError {
public:
    using ConfigError::ConfigError;
};

enum class Parsed { Run, HelpShown };

/// Parses argv[first...]. Prints help for --help. Throws ConfigError for anything wrong; for an
/// unknown flag it names the nearest one.
[[nodiscard]] Parsed parse_arguments(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace weightlift::app
