#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include "resources.hpp"

namespace weightlift::transport::verbs {
namespace {

std::string locked_memory_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
    return fmt::format(
        "; the locked-memory limit of this process is {} (raise it with ulimit -l unlimited, "
        "/etc/security/limits.conf, or LimitMEMLOCK of the service that starts the job)",
        human_bytes(limit.rlim_cur));
}

/// The piece, or none and errno.
MemoryPtr register_piece(const Device& device, const memory::Arena& arena, Bytes offset,
                         Bytes bytes, int access, Method method) {
    std::byte* const at = arena.data() + offset;
    if (method != Method::DmaBuf) return MemoryPtr(ibv_reg_mr(device.domain(), at, bytes, access));
    const auto part = arena.dmabuf(offset, bytes);
    if (!part) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    MemoryPtr memory(ibv_reg_dmabuf_mr(device.domain(), part->offset, bytes,
                                       reinterpret_cast<std::uint64_t>(at), part->fd, access));
    const int error = errno;
    ::close(part->fd);  // the region keeps what it needs
    errno = error;
    return memory;
}

}  // namespace

std::string_view to_string(Method method) {
    switch (method) {
        case Method::Host: return "host";
        case Method::DmaBuf: return "dmabuf";
        case Method::PeerMem: return "peermem";
    }
    return "?";
}

std::vector<Method> methods_for(memory::MemoryKind kind, Registration asked, bool has_peermem) {
    if (kind == memory::MemoryKind::Host) return {Method::Host};
    if (asked == Registration::DmaBuf) return {Method::DmaBuf};
    if (asked == Registration::PeerMem) {
        if (!has_peermem)
            throw ConfigError(
                "--reg peermem: the kernel module nvidia_peermem is not loaded (modprobe "
                "nvidia_peermem, or --reg dmabuf)");
        return {Method::PeerMem};
    }
    if (has_peermem) return {Method::DmaBuf, Method::PeerMem};
    return {Method::DmaBuf};
}

bool has_peermem(const std::string& root) {
    std::error_code ignored;
    for (const char* name : {"nvidia_peermem", "nv_peer_mem"})
        if (std::filesystem::exists(root + "/sys/module/" + name, ignored)) return true;
    return false;
}

Region::Region(const Device& device, const memory::Arena& arena, int access, Bytes piece,
               Registration asked, Bytes left_out)
    : piece_(piece) {
    std::vector<std::string> refusals;
    for (const Method method : methods_for(arena.kind(), asked, has_peermem())) {
        method_ = method;
        pieces_.clear();
        int error = 0;
        const Bytes end = arena.bytes() - std::min(left_out, arena.bytes());
        for (Bytes at = 0; at < end && error == 0; at += piece_) {
            MemoryPtr memory =
                register_piece(device, arena, at, std::min(piece_, end - at), access, method);
            if (!memory)
                error = errno;
            else
                pieces_.push_back(std::move(memory));
        }
        if (error == 0) return;
        refusals.push_back(fmt::format("{}: {}{}", to_string(method), std::strerror(error),
                                       error == ENOMEM ? locked_memory_limit() : ""));
    }
    throw TransportError(fmt::format("verbs: cannot register {} of {} memory with {} ({})",
                                     human_bytes(arena.bytes()),
                                     arena.kind() == memory::MemoryKind::Host ? "host" : "GPU",
                                     device.label(), fmt::join(refusals, "; ")));
}

std::vector<std::uint32_t> Region::remote_keys() const {
    std::vector<std::uint32_t> keys;
    for (const MemoryPtr& piece : pieces_) keys.push_back(piece->rkey);
    return keys;
}

}  // namespace weightlift::transport::verbs
