// The cases of a sweep, and which of them cannot be.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weightlift/session/topology.hpp"

#include "../push_options.hpp"
#include "job.hpp"

namespace weightlift::app::sweep {

/// A host of the launch, and what its ranks can have of its memory.
struct Host {
    std::string name;
    std::vector<int> ranks;
    Bytes memory = 0;
};
using Hosts = std::vector<Host>;

struct Case {
    Settings settings;
    std::uint64_t repetition = 0;
    std::string name;      ///< model/trainer/rollout/strategy/transport[/variant], as asked for
    std::string variant;   ///< what else sets it apart
    std::string rule;      ///< why it cannot be; empty: it can
    PushArguments push{};  ///< of a case that can be
    std::string model, trainer, rollout;  ///< as a key of the results file names them
    std::uint64_t parameters = 0;
    Bytes model_bytes = 0;
    Rank trainers = 0, rollouts = 0;
    Bytes bytes = 0;         ///< memory of all rollouts
    Bytes rank_bytes = 0;    ///< most weights of a rank
    std::uint64_t pushes{};  ///< warm-ups too; 0: as many as its duration gives

    [[nodiscard]] bool can_run() const { return rule.empty(); }
    [[nodiscard]] Rank ranks() const { return trainers + rollouts; }
};

/// All cases of all repetitions. A combination that push would refuse before it connects, that
/// needs more ranks than `launched`, or on some of `hosts` (empty: not known) more memory for its
/// weights than there is, has the rule that says so. ConfigError where the job itself is wrong: an
/// unknown key. Reads models and layout files.
[[nodiscard]] std::vector<Case> make_cases(const Job& job, std::optional<int> launched,
                                           const Hosts& hosts);

}  // namespace weightlift::app::sweep
