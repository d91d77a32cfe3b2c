// What every wait of the communicator is made of.
#pragma once

#include <algorithm>
#include <utility>

#include <sched.h>

#include "weightlift/mpi/communicator.hpp"

namespace weightlift::mpi {

template <class Done, class Event>
void Communicator::poll(const Deadline& deadline, const char* phase, Done done, Event event) const {
    while (!done()) {
        if (idle_) idle_();
        answer_roll_call();
        if (deadline.passed()) expire(deadline, phase, event());
        if (told_to_stop() && Clock::now() > *told_ + kLeave)
            expire(Deadline(kLeave), phase, event());
        ::sched_yield();
    }
}

/// Calls piece(offset, count) so that each count fits MPI's int; a GiB also keeps clear of the
/// implementations' own limits.
template <class F>
void for_each_piece(Bytes bytes, F piece) {
    constexpr Bytes kMaxMessage = GiB;
    for (Bytes at = 0; at < bytes; at += kMaxMessage)
        piece(at, narrow<int>(std::min(kMaxMessage, bytes - at)));
}

/// Pending operations still write to a buffer whose wait was given up: it must not be freed.
template <class Buffer>
void abandon(Buffer& buffer) {
    [[maybe_unused]] const auto* kept = new Buffer(std::move(buffer));
}

}  // namespace weightlift::mpi
