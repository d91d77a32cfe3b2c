// Memory that other processes of this host write to: the arena, and a control page in which each
// source notes the epoch that it has finished. Both are anonymous pages that a writer opens through
// /proc/PID/fd, so nothing has a name and nothing outlives the processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "../region_key.hpp"

namespace weightlift::transport::shm {

struct Key {
    static constexpr std::uint32_t kTag = 0x73686d31;  // "shm1"
    std::int32_t rank = -1;                            ///< of the world
    std::int32_t pid = 0;
    std::int32_t arena_fd = -1;
    std::int32_t control_fd = -1;
    std::int32_t sources = 0;  ///< lines of the control page: one for each rank of the world
    std::int32_t unused = 0;
    std::uint64_t bytes = 0;
    // What the descriptors must turn out to be: process ids and descriptors are used again.
    std::uint64_t arena_device = 0, arena_inode = 0;
    std::uint64_t control_device = 0, control_inode = 0;
    std::uint64_t pid_namespace = 0;
    std::array<char, 40> boot_id{};
};

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

/// A shared mapping of a descriptor; nothing for 0 bytes.
class Mapping {
public:
    /// Throws TransportError with `what` and the system's text.
    Mapping(const Descriptor& file, Bytes bytes, const std::string& what);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    [[nodiscard]] std::byte* data() const { return data_; }

private:
    std::byte* data_ = nullptr;
    Bytes bytes_ = 0;
};

/// One epoch a source, each on a cache line of its own.
class EpochLines {
public:
    [[nodiscard]] static Bytes bytes(int sources);
    explicit EpochLines(std::byte* page) : page_(page) {}
    [[nodiscard]] std::atomic<std::uint64_t>& operator[](int source) const;

private:
    std::byte* page_;
};

/// A rank's own region.
class LocalRegion {
public:
    /// For `rank` of a world of `size`.
    LocalRegion(const memory::Arena& arena, int rank, int size);
    [[nodiscard]] const Key& key() const { return key_; }
    [[nodiscard]] const memory::Arena& arena() const { return arena_; }
    [[nodiscard]] EpochLines epochs() const { return EpochLines(control_.data()); }

private:
    const memory::Arena& arena_;
    Descriptor control_file_;
    Mapping control_;
    Key key_;
};

/// Another process's region, mapped here.
class RemoteRegion {
public:
    /// Throws TransportError where the key is not one of this host, or not of a live region of that
    /// rank and size. `peer` is its owner's label.
    RemoteRegion(const Destination& destination, int world_size, const std::string& peer);
    [[nodiscard]] std::byte* data() const { return arena_.data(); }
    [[nodiscard]] EpochLines epochs() const { return EpochLines(control_.data()); }

private:
    RemoteRegion(const Key& key, const std::string& peer);
    Mapping arena_;
    Mapping control_;
};

}  // namespace weightlift::transport::shm
