// What a results file says of the run as a whole. Collected on rank 0.
#pragma once

#include <string>
#include <vector>

#include "weightlift/record/run_record.hpp"

namespace weightlift::app {

/// `command` is what was given to the program; `results_path` is only asked for its file system.
/// Environment variables by allow-list.
[[nodiscard]] record::RunInfo make_run_info(const std::string& command, const std::string& labels,
                                            const std::string& results_path);

/// The path to write to: `output` with %j replaced (ConfigError outside a Slurm job), or the
/// default results/<model>-<time>.h5, whose folder is made.
[[nodiscard]] std::string results_path(const std::string& output, const std::string& model);

/// Name of the file system that holds a folder: "ext", "nfs", … or its number.
[[nodiscard]] std::string file_system(const std::string& folder);

}  // namespace weightlift::app
