// A file descriptor handed to other processes of this host over a socket: for memory that cannot be
// opened through /proc.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "weightlift/mpi/deadline.hpp"

#include "peer_memory.hpp"

namespace weightlift::transport {

/// Where an FdDoor is, for keys: a name in the abstract namespace of sockets, which is that of the
/// network. All zeros: nowhere.
using DoorName = std::array<char, 32>;

/// The owner's side. Only processes of the same user are served.
class FdDoor {
public:
    /// Throws TransportError where there can be no socket.
    FdDoor();
    [[nodiscard]] const DoorName& name() const { return name_; }
    /// Hands `fd` to as many callers. Throws DeadlineError where they do not come.
    void serve(int fd, std::size_t callers, const mpi::Deadline& deadline) const;

private:
    DoorName name_{};
    Descriptor socket_;
};

/// The other side, in two steps, so that ranks which serve and call each other do not wait in a
/// circle: knock at all doors, serve, then take.
class FdCall {
public:
    /// Throws TransportError naming the peer where there is no such door in this network namespace.
    FdCall(const DoorName& door, const std::string& backend, std::string peer);
    /// The descriptor, which belongs to the caller.
    [[nodiscard]] Descriptor take(const mpi::Deadline& deadline) const;

private:
    std::string backend_, peer_;
    Descriptor socket_;
};

}  // namespace weightlift::transport
