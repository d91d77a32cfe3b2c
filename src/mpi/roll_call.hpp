// The roll call that finds out who is missing when a wait has expired. Small eager messages over
// one reserved tag: Expired (any -> 0), Call (0 -> any), Here (any -> 0), Verdict (0 -> any). A
// rank that waits elsewhere, or reaches its wait later, answers from there; one that is dead,
// stopped or busy does not, and is named.
#pragma once

#include <functional>
#include <string>

#include <mpi.h>

#include "weightlift/mpi/deadline.hpp"

namespace weightlift::mpi {

inline constexpr int kRollCallTag = 32000;  // below the least MPI_TAG_UB, 32767
inline constexpr int kAlarmTag = 32001;

struct RollCall {
    MPI_Comm comm;
    int rank;
    int size;
    const std::function<std::string(int)>& label;

    /// Handles what has come in; the verdict's text once there is one, else empty.
    [[nodiscard]] std::string listen() const;
    /// The wait of `phase` has expired here. Returns the verdict: names the missing, or says that
    /// the phase did not end though all ranks answer, and `event`.
    [[nodiscard]] std::string expire(std::chrono::nanoseconds timeout, const std::string& phase,
                                     const std::string& event) const;
};

}  // namespace weightlift::mpi
