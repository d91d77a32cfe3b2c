// Ending together: each phase is local work followed by an agreement of all ranks, so that one
// rank's failure ends all of them with that rank's message and exit code rather than in a hang.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "weightlift/base/error.hpp"
#include "weightlift/mpi/communicator.hpp"

namespace weightlift::session {

/// Thrown on all ranks at once, with equal code and text: the process may finalize and return.
class AgreedError : public Error {
public:
    using Error::Error;
};

/// Runs phases over one communicator. Non-copyable view: world and labels must outlive it.
class Agreement {
public:
    /// `label` gives "rank 3 (host n042)".
    Agreement(const mpi::Communicator& world, std::function<std::string(int)> label,
              std::chrono::nanoseconds timeout)
        : world_(world), label_(std::move(label)), timeout_(timeout) {}

    /// Collective. Runs `work` (which gets the phase's deadline), then agrees. If it threw an Error
    /// on any rank, all throw AgreedError with "<label> in <phase>: <message>" of the lowest such
    /// rank and its exit code. Work that waits in a loop of its own for what other ranks bring must
    /// listen, and raise the alarm where it fails. Where only some ranks may throw, no collective
    /// may follow in the same work: the others would be in it while those that threw agree. Each
    /// such check is a run of its own. Lost peers give DeadlineError naming them, within `timeout`.
    void run(const char* phase, const std::function<void(const mpi::Deadline&)>& work) const;

    /// Collective. All ranks pass an equal value, or all throw AgreedError: "<what> differs between
    /// ranks".
    void require_equal(std::uint64_t value, const char* what, const char* phase) const;

    [[nodiscard]] std::chrono::nanoseconds timeout() const { return timeout_; }
    [[nodiscard]] const mpi::Communicator& world() const { return world_; }
    [[nodiscard]] std::string label(int rank) const { return label_(rank); }

private:
    const mpi::Communicator& world_;
    std::function<std::string(int)> label_;
    std::chrono::nanoseconds timeout_;
};

}  // namespace weightlift::session
