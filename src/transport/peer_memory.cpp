#include "peer_memory.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weightlift::transport {
namespace {

TransportError system_error(const std::string& what) {
    return TransportError(fmt::format("{}: {}", what, std::strerror(errno)));
}

struct stat status_of(int fd, const std::string& what) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw system_error(what);
    return status;
}

}  // namespace

ProcessId ProcessId::own(int rank) {
    ProcessId id{.rank = rank, .pid = ::getpid(), .pid_namespace = 0, .boot_id = {}};
    struct stat status {};
    if (::stat("/proc/self/ns/pid", &status) != 0) throw system_error("/proc/self/ns/pid");
    id.pid_namespace = status.st_ino;
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    file.getline(id.boot_id.data(), static_cast<std::streamsize>(id.boot_id.size()));
    if (!file) throw TransportError("cannot read /proc/sys/kernel/random/boot_id");
    return id;
}

FileId FileId::of(int fd, Bytes bytes) {
    const auto status = status_of(fd, "fstat of memory to be shared");
    return {.fd = fd, .unused = 0, .device = status.st_dev, .inode = status.st_ino, .bytes = bytes};
}

void check_reachable(const ProcessId& owner, int rank, const std::string& backend,
                     const std::string& peer) {
    const ProcessId own = ProcessId::own(-1);
    if (owner.rank != rank)
        throw TransportError(
            fmt::format("{}: the key of {} was made by rank {}", backend, peer, owner.rank));
    if (owner.boot_id != own.boot_id)
        throw TransportError(
            fmt::format("{}: {} is on another host; use --transport mpi", backend, peer));
    if (owner.pid_namespace != own.pid_namespace)
        throw TransportError(fmt::format(
            "{}: {} is in another container (PID namespace) of this host; run all ranks of a host "
            "in one, or use --transport mpi",
            backend, peer));
}

Descriptor::~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
}

Descriptor borrow(const ProcessId& owner, const FileId& file, const std::string& backend,
                  const std::string& peer) {
    const std::string path = fmt::format("/proc/{}/fd/{}", owner.pid, file.fd);
    Descriptor opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (opened.get() < 0) {
        const bool forbidden = errno == EACCES || errno == EPERM;
        throw TransportError(
            fmt::format("{}: cannot open the memory of {} through {}: {}; {}", backend, peer, path,
                        std::strerror(errno),
                        forbidden ? "all ranks of a host must run as one user and be traceable "
                                    "(PR_SET_DUMPABLE), or use --transport mpi"
                                  : "the process may be gone"));
    }
    const auto status = status_of(opened.get(), path);
    if (status.st_dev != file.device || status.st_ino != file.inode ||
        static_cast<Bytes>(status.st_size) != file.bytes)
        throw TransportError(
            fmt::format("{}: {} is not the memory of {} that its key names", backend, path, peer));
    return opened;
}

Mapping::Mapping(const Descriptor& file, Bytes bytes, const std::string& what, Bytes offset)
    : bytes_(bytes) {
    if (bytes == 0) return;
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                            narrow<off_t>(offset, "offset of a mapping"));
    if (at == MAP_FAILED) throw system_error(what);
    data_ = static_cast<std::byte*>(at);
}

Mapping::~Mapping() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace weightlift::transport
