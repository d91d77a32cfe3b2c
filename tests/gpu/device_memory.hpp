// What tests of GPU memory share: a skip with its reason, and the bytes as the CPU sees them.
#pragma once

#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/error.hpp"
#include "weightlift/memory/cuda_arena.hpp"

namespace weightlift::memory {

class GpuTest : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = weightlift::cuda::why_no_devices(); !why.empty())
            GTEST_SKIP() << why;
    }
};

/// Over both ways of allocating.
class AnyDeviceMemory : public GpuTest, public testing::WithParamInterface<DeviceMemory> {
protected:
    [[nodiscard]] CudaOptions options(int device = 0) const { return {device, GetParam()}; }
};

inline std::string method_name(const testing::TestParamInfo<DeviceMemory>& info) {
    return info.param == DeviceMemory::Vmm ? "vmm" : "malloc";
}

[[nodiscard]] inline std::vector<std::byte> download(const Arena& arena) {
    std::vector<std::byte> bytes(arena.bytes());
    weightlift::cuda::check(
        cudaMemcpy(bytes.data(), arena.data(), bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return bytes;
}

inline void upload(Arena& arena, const std::vector<std::byte>& bytes) {
    weightlift::cuda::check(
        cudaMemcpy(arena.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    // A copy from pageable memory may return before the GPU has written it.
    weightlift::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace weightlift::memory
