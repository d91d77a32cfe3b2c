// The flags of sweep.
#pragma once

#include <optional>
#include <string>

#include "../commands.hpp"
#include "../options.hpp"

namespace weightlift::app::sweep {

struct Options {
    std::string path;            ///< of the job file
    std::string output, labels;  ///< before those of the job
    std::optional<int> ranks;    ///< --dry-run: an allocation of that size
    std::optional<int> hosts;    ///< --dry-run: on so many hosts like this one
    bool is_dry = false, is_resumed = false, as_json = false, is_quiet = false;
};

/// Throws ConfigError. `arguments` without "sweep".
[[nodiscard]] Parsed parse_sweep(const Arguments& arguments, Options& out);

}  // namespace weightlift::app::sweep
