// TOML files of ours (jobs, clusters), made fit for CLI11's reader, which is the only one here.
#pragma once

#include <string>
#include <string_view>

namespace weightlift::app {

/// The same text with each entry on one line, without comments or spaces: CLI11's reader takes none
/// inside of lists. Lines that it would pass over or read as something else are refused
/// (ConfigError naming the line).
[[nodiscard]] std::string plain_toml(std::string_view toml);

}  // namespace weightlift::app
