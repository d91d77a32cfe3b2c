// The job files compiled in: model configurations and cluster descriptions by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weightlift::app {

/// Text of a shipped model configuration (jobs/models) or of the file at that path. ConfigError,
/// listing the names shipped and suggesting the nearest, where neither exists.
[[nodiscard]] std::string model_text(const std::string& name_or_path);
/// As model_text, for cluster descriptions (jobs/clusters).
[[nodiscard]] std::string cluster_text(const std::string& name_or_path);
/// "moonlight-16b-a3b" of "path/to/moonlight-16b-a3b.json"; of "dir/config.json" the folder's name.
[[nodiscard]] std::string model_name(const std::string& name_or_path);

/// Whole file as text; ConfigError naming the path and the system's reason.
[[nodiscard]] std::string read_text(const std::string& path);

}  // namespace weightlift::app
