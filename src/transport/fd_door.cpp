#include "fd_door.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace weightlift::transport {
namespace {

TransportError system_error(const std::string& what) {
    return TransportError(fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Abstract: the first byte of the path is 0.
struct Address {
    sockaddr_un value{};
    socklen_t size = sizeof(sa_family_t) + 1 + sizeof(DoorName);
    explicit Address(const DoorName& name) {
        value.sun_family = AF_UNIX;
        std::copy(name.begin(), name.end(), value.sun_path + 1);
    }
    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

DoorName random_name() {
    DoorName name{};
    std::random_device random;
    fmt::format_to_n(name.begin(), name.size(), "weightlift-{:08x}{:08x}", random(), random());
    return name;
}

Descriptor make_socket() {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) throw system_error("socket for handing out memory");
    return socket;
}

/// Whether something can be read there in time.
bool is_ready(int socket, const mpi::Deadline& deadline) {
    for (;;) {
        pollfd entry{.fd = socket, .events = POLLIN, .revents = 0};
        const int found = ::poll(&entry, 1, 20);
        if (found > 0) return true;
        if (found < 0 && errno != EINTR) throw system_error("poll");
        if (deadline.passed()) return false;
    }
}

/// One byte with a descriptor beside it.
class Parcel {
public:
    Parcel() {
        message_.msg_iov = &entry_;
        message_.msg_iovlen = 1;
        message_.msg_control = control_.data();
        message_.msg_controllen = control_.size();
    }
    [[nodiscard]] msghdr* get() { return &message_; }
    void put(int fd) {
        cmsghdr* const header = CMSG_FIRSTHDR(&message_);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    /// -1: none came.
    [[nodiscard]] int fd() {
        const cmsghdr* const header = CMSG_FIRSTHDR(&message_);
        int fd = -1;
        if (header != nullptr && header->cmsg_type == SCM_RIGHTS)
            std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
        return fd;
    }

private:
    char byte_ = 'm';
    iovec entry_{&byte_, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control_{};
    msghdr message_{};
};

}  // namespace

FdDoor::FdDoor() : name_(random_name()), socket_(make_socket()) {
    const Address address(name_);
    if (::bind(socket_.get(), address.get(), address.size) != 0 ||
        ::listen(socket_.get(), SOMAXCONN) != 0)
        throw system_error("socket for handing out memory");
}

void FdDoor::serve(int fd, std::size_t callers, const mpi::Deadline& deadline) const {
    for (std::size_t served = 0; served < callers;) {
        if (!is_ready(socket_.get(), deadline))
            throw DeadlineError(fmt::format(
                "{} of {} sources have asked for this rank's memory in time", served, callers));
        const Descriptor caller(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (caller.get() < 0) throw system_error("accept of a source");
        ucred who{};
        socklen_t size = sizeof who;
        if (::getsockopt(caller.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
            throw system_error("SO_PEERCRED");
        if (who.uid != ::geteuid()) continue;  // somebody else's, who gets nothing
        Parcel parcel;
        parcel.put(fd);
        // A source that is gone by now is the others' to notice.
        if (::sendmsg(caller.get(), parcel.get(), MSG_NOSIGNAL) < 0 && errno != EPIPE &&
            errno != ECONNRESET)
            throw system_error("sendmsg of a descriptor");
        ++served;
    }
}

FdCall::FdCall(const DoorName& door, const std::string& backend, std::string peer)
    : backend_(backend), peer_(std::move(peer)), socket_(make_socket()) {
    const Address address(door);
    if (::connect(socket_.get(), address.get(), address.size) != 0)
        throw system_error(fmt::format(
            "{}: cannot ask {} for its memory; ranks of a host must share a network namespace, or "
            "use --device-memory malloc",
            backend_, peer_));
}

Descriptor FdCall::take(const mpi::Deadline& deadline) const {
    if (!is_ready(socket_.get(), deadline))
        throw DeadlineError(
            fmt::format("{}: {} has not given its memory in time", backend_, peer_));
    Parcel parcel;
    if (::recvmsg(socket_.get(), parcel.get(), MSG_CMSG_CLOEXEC) < 0)
        throw system_error(fmt::format("{}: memory of {}", backend_, peer_));
    Descriptor taken(parcel.fd());
    if (taken.get() < 0)
        throw TransportError(fmt::format(
            "{}: {} gives its memory only to processes of the same user", backend_, peer_));
    return taken;
}

}  // namespace weightlift::transport
