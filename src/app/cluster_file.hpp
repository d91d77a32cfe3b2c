// Cluster descriptions (jobs/clusters) from TOML.
#pragma once

#include <string>
#include <string_view>

#include "weightlift/sim/cluster.hpp"

namespace weightlift::app {

/// ConfigError naming line or field, value and rule.
[[nodiscard]] sim::Cluster parse_cluster(std::string_view toml);
/// A shipped cluster or the file at that path.
[[nodiscard]] sim::Cluster load_cluster(const std::string& name_or_path);

}  // namespace weightlift::app
