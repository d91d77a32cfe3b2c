// Who plays in a case: the first N of the ranks launched, over a communicator of their own, so that
// nothing of a failed case is left in the next one's. The others sleep between looks, and hear from
// rank 0 after every push; a deadline tells them where it says nothing any more.
#pragma once

#include <optional>

#include "weightlift/mpi/communicator.hpp"

namespace weightlift::app::sweep {

class Cast {
public:
    /// Collective over `world`. `timeout` is the case's, of a phase.
    Cast(const mpi::Communicator& world, mpi::Watchdog& watchdog, int players,
         std::chrono::nanoseconds timeout, std::chrono::nanoseconds interval);

    /// Absent on a rank that sits this case out.
    [[nodiscard]] const mpi::Communicator* players() const {
        return players_ ? &*players_ : nullptr;
    }

    /// Rank 0: tells those who sit out that the case goes on.
    void go_on() const { tell(true); }
    /// Rank 0: and that it is over.
    void end() const { tell(false); }
    /// Those who sit out: until it is over. DeadlineError where rank 0 is silent.
    void sit_out() const;

private:
    void tell(bool goes_on) const;

    std::optional<mpi::Communicator> players_, audience_;  ///< rank 0 is in both
    std::chrono::nanoseconds patience_;
};

}  // namespace weightlift::app::sweep
