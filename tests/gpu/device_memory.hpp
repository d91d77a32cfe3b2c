// What tests of GPU memory share: a skip with its reason, and both ways of allocating.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "weightlift/cuda/device.hpp"
#include "weightlift/memory/cuda_arena.hpp"

#include "support/arena_bytes.hpp"

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

}  // namespace weightlift::memory
