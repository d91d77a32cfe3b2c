#include "region.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weightlift::transport::shm {
namespace {

constexpr Bytes kCacheLine = 64;

TransportError system_error(const std::string& what) {
    return TransportError(fmt::format("shm: {}: {}", what, std::strerror(errno)));
}

struct stat status_of(int fd, const std::string& what) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw system_error(what);
    return status;
}

/// Identity of this host since it was started.
std::array<char, 40> boot_id() {
    std::array<char, 40> id{};
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    file.getline(id.data(), id.size());
    if (!file) throw TransportError("shm: cannot read /proc/sys/kernel/random/boot_id");
    return id;
}

std::uint64_t pid_namespace() {
    struct stat status {};
    if (::stat("/proc/self/ns/pid", &status) != 0) throw system_error("/proc/self/ns/pid");
    return status.st_ino;
}

/// A descriptor of another process, opened anew, where it is the file that the key means.
Descriptor borrow(std::int32_t pid, std::int32_t fd, std::uint64_t device, std::uint64_t inode,
                  Bytes bytes, const std::string& peer) {
    const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
    Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (file.get() < 0) {
        const bool forbidden = errno == EACCES || errno == EPERM;
        throw TransportError(
            fmt::format("shm: cannot open the memory of {} through {}: {}; {}", peer, path,
                        std::strerror(errno),
                        forbidden ? "all ranks of a host must run as one user and be traceable "
                                    "(PR_SET_DUMPABLE), or use --transport mpi"
                                  : "the process may be gone"));
    }
    const auto status = status_of(file.get(), path);
    if (status.st_dev != device || status.st_ino != inode ||
        static_cast<Bytes>(status.st_size) != bytes)
        throw TransportError(
            fmt::format("shm: {} is not the memory of {} that its key names", path, peer));
    return file;
}

Key checked_key(const Destination& destination, int world_size, const std::string& peer) {
    const auto key = unpack_key<Key>(destination.key);
    if (!key || key->sources != world_size)
        throw TransportError(fmt::format("shm: the key of {} is not one of this transport", peer));
    if (key->rank != destination.rank)
        throw TransportError(
            fmt::format("shm: the key of {} was made by rank {}", peer, key->rank));
    if (key->boot_id != boot_id())
        throw TransportError(fmt::format("shm: {} is on another host; use --transport mpi", peer));
    if (key->pid_namespace != pid_namespace())
        throw TransportError(fmt::format(
            "shm: {} is in another container (PID namespace) of this host; run all ranks of a host "
            "in one, or use --transport mpi",
            peer));
    if (key->bytes != destination.region_bytes)
        throw TransportError(fmt::format("shm: the key of {} is for a region of {} bytes, not {}",
                                         peer, key->bytes, destination.region_bytes));
    return *key;
}

Descriptor make_control(int sources) {
    Descriptor file(::memfd_create("weightlift-control", MFD_CLOEXEC));
    if (file.get() < 0) throw system_error("memfd_create of the control page");
    if (::ftruncate(file.get(), narrow<off_t>(EpochLines::bytes(sources))) != 0)
        throw system_error("ftruncate of the control page");
    return file;
}

}  // namespace

Descriptor::~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
}

Mapping::Mapping(const Descriptor& file, Bytes bytes, const std::string& what) : bytes_(bytes) {
    if (bytes == 0) return;
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) throw system_error(what);
    data_ = static_cast<std::byte*>(at);
}

Mapping::~Mapping() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
}

Bytes EpochLines::bytes(int sources) { return static_cast<Bytes>(sources) * kCacheLine; }

std::atomic<std::uint64_t>& EpochLines::operator[](int source) const {
    using Epoch = std::atomic<std::uint64_t>;
    static_assert(Epoch::is_always_lock_free && sizeof(Epoch) == sizeof(std::uint64_t));
    return *reinterpret_cast<Epoch*>(page_ + static_cast<Bytes>(source) * kCacheLine);
}

LocalRegion::LocalRegion(const memory::Arena& arena, int rank, int size)
    : arena_(arena),
      control_file_(make_control(size)),
      control_(control_file_, EpochLines::bytes(size), "mmap of the control page") {
    if (arena.share_fd() < 0)
        throw TransportError("shm: this rank's memory has no descriptor that can be shared");
    const auto shared = status_of(arena.share_fd(), "fstat of the arena");
    const auto control = status_of(control_file_.get(), "fstat of the control page");
    key_ = {.rank = rank,
            .pid = ::getpid(),
            .arena_fd = arena.share_fd(),
            .control_fd = control_file_.get(),
            .sources = size,
            .bytes = arena.bytes(),
            .arena_device = shared.st_dev,
            .arena_inode = shared.st_ino,
            .control_device = control.st_dev,
            .control_inode = control.st_ino,
            .pid_namespace = pid_namespace(),
            .boot_id = boot_id()};
}

RemoteRegion::RemoteRegion(const Destination& destination, int world_size, const std::string& peer)
    : RemoteRegion(checked_key(destination, world_size, peer), peer) {}

RemoteRegion::RemoteRegion(const Key& key, const std::string& peer)
    : arena_(borrow(key.pid, key.arena_fd, key.arena_device, key.arena_inode, key.bytes, peer),
             key.bytes, "mmap of the memory of " + peer),
      control_(borrow(key.pid, key.control_fd, key.control_device, key.control_inode,
                      EpochLines::bytes(key.sources), peer),
               EpochLines::bytes(key.sources), "mmap of the control page of " + peer) {}

}  // namespace weightlift::transport::shm
