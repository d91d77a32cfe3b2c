// GPU memory for weights. Only in builds with CUDA; make_arena (registry.hpp) is there in all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "weightlift/memory/arena.hpp"

namespace weightlift::memory {

/// How GPU memory is allocated. Malloc: cudaMalloc, shared by CUDA IPC handles. Vmm: one physical
/// allocation of the virtual memory API, shared by its file descriptor (sent over a socket or taken
/// by pidfd_getfd: unlike a memfd it cannot be opened through /proc).
enum class DeviceMemory : std::uint8_t { Malloc, Vmm };

struct CudaOptions {
    int device = 0;  ///< ordinal among the visible ones
    DeviceMemory method = DeviceMemory::Malloc;
    Bytes at_least = 0;  ///< of GPU memory, though the arena be smaller
};

/// Zeroed memory of that GPU, usable by NICs where the GPU can; data() is a device pointer. Where
/// it does not fit: ConfigError naming the bytes and the device. bytes may be 0. Calls return when
/// the GPU is done; the caller's current device is kept.
[[nodiscard]] std::unique_ptr<Arena> make_cuda_arena(Bytes bytes, const CudaOptions& options);

/// What other processes of this host need to map such an arena. Trivially copyable: goes into keys.
struct CudaShare {
    std::int32_t device = -1;  ///< ordinal in the owning process
    DeviceMemory method = DeviceMemory::Malloc;
    Bytes offset = 0;                    ///< of the arena in what is mapped
    Bytes size = 0;                      ///< of what is mapped; 0: there is nothing to map
    std::array<std::byte, 64> handle{};  ///< Malloc: of CUDA IPC. Vmm goes by Arena::share_fd()
};

/// Of an arena that make_cuda_arena made.
[[nodiscard]] CudaShare share_cuda_arena(const Arena& arena);

/// Another process's memory, mapped for this process's use from one of its devices. Must be gone
/// before the owner frees the memory.
class PeerCudaMemory {
public:
    virtual ~PeerCudaMemory() = default;
    PeerCudaMemory(const PeerCudaMemory&) = delete;
    PeerCudaMemory& operator=(const PeerCudaMemory&) = delete;
    /// Of the arena; a device pointer.
    [[nodiscard]] std::byte* data() const { return data_; }

protected:
    PeerCudaMemory() = default;
    std::byte* data_ = nullptr;
};

/// `fd`: for Vmm, this process's duplicate of the owner's share_fd(); stays the caller's. Throws
/// TransportError with CUDA's reason where the driver does not let this process map it.
[[nodiscard]] std::unique_ptr<PeerCudaMemory> map_cuda_share(const CudaShare& share, int fd,
                                                             int device);

}  // namespace weightlift::memory
