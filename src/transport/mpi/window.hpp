// The windows of one rank: one for each engine that it has to do with, over all trainers and that
// engine's ranks. Opened once for passive access, closed at the end or, after a failure, never.
#pragma once

#include <vector>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::mpi_rma {

/// A rank of the world in one of the windows.
struct Place {
    std::size_t window = 0;
    int rank = 0;
};

class Windows {
public:
    /// Collective over each of the groups of `links`. Under the watchdog.
    Windows(const Context& context, const LinkTable& links, const memory::Arena& arena);
    /// Collective over the groups unless abandoned, or while an exception is in flight.
    ~Windows();
    Windows(const Windows&) = delete;
    Windows& operator=(const Windows&) = delete;

    /// The first window in common with the rank: the same on both sides, as all list their windows
    /// in one order. Throws TransportError where there is none.
    [[nodiscard]] Place find(int world_rank) const;
    [[nodiscard]] MPI_Win win(const Place& place) const { return windows_[place.window].win; }
    [[nodiscard]] MPI_Comm comm(const Place& place) const {
        return windows_[place.window].comm.get();
    }
    /// Orders this process's own accesses to its memory and those of the others.
    void sync() const;
    /// A peer may be lost: nothing that could wait for it is called any more.
    void abandon() { abandoned_ = true; }

private:
    struct Window {
        std::vector<int> ranks;  ///< of the world
        weightlift::mpi::Communicator comm;
        MPI_Win win = MPI_WIN_NULL;
    };
    const Context& context_;
    std::vector<Window> windows_;
    bool abandoned_ = false;
    int exceptions_;
};

}  // namespace weightlift::transport::mpi_rma
