// A job file: the flags of push as TOML keys, lists where they vary. Pure: text in, values out.
//
//   model = "tiny-deepseek"
//   trainer = ["tp=1", "tp=2"]        # every trainer with every transport: 4 cases
//   transport = ["shm", "mpi"]
//   rollout = "tp=2+tp=1"             # two groups of engines
//   repetitions = 2                   # all cases once, then all of them again
//
//   # Any number of these: each is a product of its own, of what it says and, for all else, what
//   # stands above the first one.
//   [[cases]]
//   layers = [2, 3]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightlift::app::sweep {

/// One flag of push and the values it takes, in order.
struct Axis {
    std::string name;
    std::vector<std::string> values;
};

struct Job {
    std::vector<std::vector<Axis>> products;
    std::string output, labels;
    std::uint64_t repetitions = 1;
};

/// ConfigError naming line, key and rule.
[[nodiscard]] Job parse_job(std::string_view toml);

/// Flag and value, in the job's order.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// One repetition: product by product, the last axis fastest. ConfigError where two cases are
/// equal.
[[nodiscard]] std::vector<Settings> multiply(const Job& job);

/// "layers=2 trainer=tp=1 …": by this a resumed sweep knows a case again. Independent of order.
[[nodiscard]] std::string identity(const Settings& settings);

/// For each case what sets it apart from the others besides the five parts of a key, as
/// "layers=2,window=1MiB"; empty where nothing does.
[[nodiscard]] std::vector<std::string> variants(const std::vector<Settings>& cases);

/// As arguments of push.
[[nodiscard]] std::vector<std::string> to_arguments(const Settings& settings);

}  // namespace weightlift::app::sweep
