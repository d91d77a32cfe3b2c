#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "weightlift/memory/arena.hpp"
#include "weightlift/memory/host_kernels.hpp"

#include "bounds.hpp"

namespace weightlift::memory {
namespace {

ConfigError refused(Bytes bytes, const std::string& why) {
    return ConfigError(fmt::format("host arena of {} bytes: {}", bytes, why));
}

std::string system_error(const char* call) {
    return std::string(call) + ": " + std::strerror(errno);
}

class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    [[nodiscard]] int get() const { return fd_; }

private:
    int fd_;
};

/// Pages of tmpfs without a name, so that they go with the last process that has them.
Descriptor open_pages(Bytes bytes) {
    if (const int fd = ::memfd_create("weightlift", MFD_CLOEXEC); fd >= 0) return Descriptor(fd);
    if (errno != ENOSYS && errno != EPERM) throw refused(bytes, system_error("memfd_create"));
    Descriptor file(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file.get() < 0) throw refused(bytes, system_error("no memfd, and open of /dev/shm"));
    struct statvfs room {};
    if (::fstatvfs(file.get(), &room) != 0) throw refused(bytes, system_error("statvfs /dev/shm"));
    if (const Bytes free = Bytes{room.f_bavail} * room.f_frsize; free < bytes)
        throw refused(bytes, fmt::format("/dev/shm has {} bytes free", free));
    return file;
}

class Mapping {
public:
    Mapping(int fd, Bytes bytes) : bytes_(bytes) {
        if (bytes == 0) return;
        void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) throw refused(bytes, system_error("mmap"));
        data_ = static_cast<std::byte*>(at);
    }
    ~Mapping() {
        if (data_ != nullptr) ::munmap(data_, bytes_);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    [[nodiscard]] std::byte* data() const { return data_; }

private:
    std::byte* data_ = nullptr;
    Bytes bytes_;
};

void check_available(Bytes bytes, Bytes more) {
    // Page tables, MPI's buffers and the system need some of it too.
    const Bytes available = available_host_memory();
    const Bytes usable = available - available / 32;
    if (more > usable)
        throw refused(bytes,
                      fmt::format("{} bytes more are needed and {} bytes of memory are available",
                                  more, usable));
}

/// Takes all pages now. Looks again before each slice: other ranks of the node take theirs at the
/// same time, and to be refused is better than to be killed.
void reserve(int fd, std::byte* data, Bytes bytes) {
    constexpr Bytes kSlice = GiB;
    for (Bytes at = 0; at < bytes; at += kSlice) {
        const Bytes slice = std::min(kSlice, bytes - at);
        check_available(bytes, bytes - at);
#ifdef MADV_POPULATE_WRITE
        // Through the mapping first: fallocate would not see that huge pages were asked for.
        if (::madvise(data + at, slice, MADV_POPULATE_WRITE) == 0) continue;
        if (errno != EINVAL) throw refused(bytes, system_error("madvise"));
#endif
        if (::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(slice)) != 0)
            throw refused(bytes, system_error("fallocate"));
    }
}

class HostArena final : public Arena {
public:
    explicit HostArena(Bytes bytes)
        : bytes_(bytes), file_(open_pages(bytes)), mapping_(resized(file_.get(), bytes), bytes) {
        // Advice only: many systems have no huge pages for shared memory.
        if (bytes > 0) (void)::madvise(mapping_.data(), bytes, MADV_HUGEPAGE);
        reserve(file_.get(), mapping_.data(), bytes);
    }

    [[nodiscard]] MemoryKind kind() const override { return MemoryKind::Host; }
    [[nodiscard]] std::byte* data() const override { return mapping_.data(); }
    [[nodiscard]] Bytes bytes() const override { return bytes_; }
    [[nodiscard]] int share_fd() const override { return file_.get(); }

    void fill(std::span<const Block> blocks, std::uint64_t version) override {
        check_inside(blocks, bytes_);
        memory::fill(data(), blocks, version);
    }
    void poison(std::span<const Block> blocks) override {
        check_inside(blocks, bytes_);
        memory::poison(data(), blocks);
    }
    void fingerprint(std::span<const Block> blocks, std::span<std::uint64_t> sums) const override {
        check_inside(blocks, bytes_);
        memory::fingerprint(data(), blocks, sums);
    }
    [[nodiscard]] std::optional<Mismatch> compare(std::span<const Block> blocks,
                                                  std::uint64_t version) const override {
        check_inside(blocks, bytes_);
        return memory::compare(data(), blocks, version);
    }
    [[nodiscard]] std::optional<Bytes> first_nonzero(
        std::span<const ByteBlock> blocks) const override {
        check_inside(blocks, bytes_);
        return memory::first_nonzero(data(), blocks);
    }
    void flip(Bytes offset) override {
        WEIGHTLIFT_ENSURES(offset < bytes_);
        data()[offset] = ~data()[offset];
    }

private:
    static int resized(int fd, Bytes bytes) {
        if (bytes > 0) check_available(bytes, bytes);
        if (::ftruncate(fd, narrow<off_t>(bytes, "bytes of a host arena")) != 0)
            throw refused(bytes, system_error("ftruncate"));
        return fd;
    }

    Bytes bytes_;
    Descriptor file_;
    Mapping mapping_;
};

}  // namespace

std::unique_ptr<Arena> make_host_arena(Bytes bytes) { return std::make_unique<HostArena>(bytes); }

}  // namespace weightlift::memory
