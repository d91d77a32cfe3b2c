// GPU memory for weights. Only in builds with CUDA; make_arena (registry.hpp) is there in all.
#pragma once

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
};

/// Zeroed memory of that GPU, usable by NICs where the GPU can; data() is a device pointer. Where
/// it does not fit: ConfigError naming the bytes and the device. bytes may be 0. Calls return when
/// the GPU is done; the caller's current device is kept.
[[nodiscard]] std::unique_ptr<Arena> make_cuda_arena(Bytes bytes, const CudaOptions& options);

}  // namespace weightlift::memory
