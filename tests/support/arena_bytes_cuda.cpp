// For builds with CUDA, which may run where there is no GPU.
#include <cstring>

#include <cuda_runtime_api.h>

#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/error.hpp"

#include "support/arena_bytes.hpp"

namespace weightlift::memory {
namespace {

/// Memory of the virtual memory API is for its own device alone.
int device_of(const Arena& arena) {
    cudaPointerAttributes attributes{};
    weightlift::cuda::check(cudaPointerGetAttributes(&attributes, arena.data()),
                            "cudaPointerGetAttributes");
    return attributes.device;
}

}  // namespace

std::vector<std::byte> download(const Arena& arena) {
    std::vector<std::byte> bytes(arena.bytes());
    if (bytes.empty()) return bytes;
    if (arena.kind() == MemoryKind::Host) {
        std::memcpy(bytes.data(), arena.data(), bytes.size());
        return bytes;
    }
    const weightlift::cuda::DeviceGuard guard(device_of(arena));
    weightlift::cuda::check(
        cudaMemcpy(bytes.data(), arena.data(), bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return bytes;
}

void upload(Arena& arena, const std::vector<std::byte>& bytes) {
    if (bytes.empty()) return;
    if (arena.kind() == MemoryKind::Host) {
        std::memcpy(arena.data(), bytes.data(), bytes.size());
        return;
    }
    const weightlift::cuda::DeviceGuard guard(device_of(arena));
    weightlift::cuda::check(
        cudaMemcpy(arena.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    // A copy from pageable memory may return before the GPU has written it.
    weightlift::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace weightlift::memory
