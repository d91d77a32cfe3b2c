// The commands; each returns the process's exit code or throws an Error.
#pragma once

#include <string>
#include <vector>

namespace weightlift::app {

using Arguments = std::vector<std::string>;

[[nodiscard]] int run_plan(const Arguments& arguments);
[[nodiscard]] int run_explain(const Arguments& arguments);
[[nodiscard]] int run_report(const Arguments& arguments);
[[nodiscard]] int run_compare(const Arguments& arguments);
[[nodiscard]] int run_show(const Arguments& arguments);
#if WEIGHTLIFT_WITH_MPI
/// Prints its own errors: with MPI, one rank speaks for all.
[[nodiscard]] int run_push(const Arguments& arguments, int* argc, char*** argv);
/// As run_push.
[[nodiscard]] int run_sweep(const Arguments& arguments, int* argc, char*** argv);
/// Initializes MPI only where a launcher started it.
[[nodiscard]] int run_doctor(const Arguments& arguments, int* argc, char*** argv);
#endif

/// "weightlift 0.1.0 (git …)" and what is built in, one line each.
[[nodiscard]] std::string version_text();
[[nodiscard]] std::string version_number();
[[nodiscard]] std::string git_revision();
/// Name and version of what is built in, in a fixed order.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> built_with();

}  // namespace weightlift::app
