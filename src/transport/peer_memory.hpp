// Files of another process of this host, opened through /proc/PID/fd: nothing has a name, and
// nothing outlives the processes. For backends that work within a host.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "weightlift/base/bytes.hpp"
#include "weightlift/base/error.hpp"

namespace weightlift::transport {

/// A process, so that another can tell whether it can reach it. Goes into keys.
struct ProcessId {
    std::int32_t rank = -1;  ///< of the world
    std::int32_t pid = 0;
    std::uint64_t pid_namespace = 0;
    std::array<char, 40> boot_id{};  ///< of its host, since it was started

    [[nodiscard]] static ProcessId own(int rank);
};

/// An open file of a process, and what it must turn out to be: descriptors are used again.
struct FileId {
    std::int32_t fd = -1;
    std::uint32_t unused = 0;
    std::uint64_t device = 0, inode = 0, bytes = 0;

    [[nodiscard]] static FileId of(int fd, Bytes bytes);
};

/// Throws TransportError, naming `backend`, `peer` and the remedy, where `owner` is not `rank`, or
/// on another host or in another container.
void check_reachable(const ProcessId& owner, int rank, const std::string& backend,
                     const std::string& peer);

class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    [[nodiscard]] int get() const { return fd_; }

private:
    int fd_;
};

/// That file, opened anew. Throws TransportError where it cannot be, or is another by now.
[[nodiscard]] Descriptor borrow(const ProcessId& owner, const FileId& file,
                                const std::string& backend, const std::string& peer);

/// A shared mapping of a part of a file, from a page's begin; nothing for 0 bytes.
class Mapping {
public:
    /// Throws TransportError with `what` and the system's text.
    Mapping(const Descriptor& file, Bytes bytes, const std::string& what, Bytes offset = 0);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    [[nodiscard]] std::byte* data() const { return data_; }

private:
    std::byte* data_ = nullptr;
    Bytes bytes_ = 0;
};

}  // namespace weightlift::transport
