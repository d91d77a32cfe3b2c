// Session: one run of pushes on one rank. Knows its part of the plan, its memory, keys and
// versions; a rollout exposes version n whole, or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weightlift/layout/layout.hpp"
#include "weightlift/record/run_record.hpp"
#include "weightlift/session/agreement.hpp"
#include "weightlift/session/options.hpp"
#include "weightlift/session/topology.hpp"

namespace weightlift::session {

/// Outcome of checking one version; complete on rank 0, `is_right` everywhere.
struct Verification {
    bool is_right = true;
    std::vector<record::FingerprintRow> fingerprints;
    std::string mismatch;  ///< sentence naming rank, tensor, index, expected, actual, count
    std::vector<std::uint64_t> rank_ns;  ///< time the check itself took, per MPI rank
    std::uint64_t wrong_elements = 0;    ///< of all rollouts
};

struct SessionInputs {
    const model::ModelSpec& model;
    const layout::Layout& trainer;
    const layout::Layout& rollout;
    const Topology& topology;
    const Roles& roles;
};

class Session {
public:
    /// Local. References must outlive the session.
    Session(const Agreement& agreement, mpi::Watchdog& watchdog, const SessionInputs& inputs,
            PushOptions options);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Collective. plan -> allocate -> register -> exchange -> connect -> prepare, each agreed and
    /// timed.
    void setup();

    /// Collective. Fills the trainers with `version`, poisons the rollouts (unless nothing is
    /// verified), pushes, commits. Complete on rank 0: times in its clock. On other ranks only
    /// `version` is set.
    [[nodiscard]] record::Sample push(std::uint64_t version, bool is_warmup);

    /// Collective; the last call, where all went well. Closes what this rank has opened of others'
    /// memory; when it returns, so have all, and memory may be freed.
    void close();

    /// Collective. Overwrites the trainers' memory, then checks what the rollouts hold.
    [[nodiscard]] Verification verify(std::uint64_t version);

    /// The version that this rollout exposes; absent before the first commit and while a push runs.
    [[nodiscard]] std::optional<std::uint64_t> version() const;

    /// Collective. At rank 0: what a results file says of this case, ranks, set-up times and
    /// traffic.
    struct Description {
        record::CaseInfo info;
        std::vector<record::RankInfo> ranks;
        std::vector<record::SetupTimes> setup_ns;
        std::vector<record::TrafficRow> traffic;
        Bytes staging = 0;                  ///< of the rank with the most
        std::vector<record::Event> events;  ///< without time: adjustments, fallbacks
    };
    [[nodiscard]] Description describe() const;

    /// Collective. At rank 0: what left through each NIC since set-up.
    [[nodiscard]] std::vector<record::NicRow> nic_traffic() const;

    /// Collective. A plain memcpy, by each trainer at once, of as many bytes as it sends (in pieces
    /// of at most 1 GiB) between two mappings: nanoseconds of the slowest trainer,
    /// median of five rounds after a warm-up.
    [[nodiscard]] std::uint64_t reference_copy_ns();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace weightlift::session
