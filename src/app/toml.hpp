// The reader of TOML files of ours (jobs, clusters, --config): CLI11's, which is the only one here,
// kept from what it would pass over in silence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace weightlift::app {

/// The same text with each entry on one line, without comments or spaces: CLI11's reader takes none
/// inside of lists. Lines that it would pass over or read as something else are refused
/// (ConfigError naming the line).
[[nodiscard]] std::string plain_toml(std::string_view toml);

/// What CLI11 reads from the plain text. ConfigError.
[[nodiscard]] std::vector<CLI::ConfigItem> read_toml(std::string_view toml);

/// The same for CLI11's own use, behind --config.
class TomlFormat final : public CLI::ConfigTOML {
public:
    [[nodiscard]] std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
};

}  // namespace weightlift::app
