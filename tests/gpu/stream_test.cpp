#include "weightlift/cuda/stream.hpp"

#include <cuda_runtime_api.h>

#include "weightlift/base/error.hpp"
#include "weightlift/cuda/driver.hpp"
#include "weightlift/cuda/error.hpp"

#include "device_memory.hpp"

namespace weightlift::cuda {
namespace {

using Streams = memory::GpuTest;
using Devices = memory::GpuTest;

TEST_F(Streams, order_work_by_events) {
    constexpr Bytes kBytes = 256 * MiB;
    const auto arena = memory::make_cuda_arena(kBytes, {});
    const Stream first, second;
    const Event begin(Timing::On), end(Timing::On);
    begin.record(first);
    for (int round = 0; round < 20; ++round)
        check(cudaMemsetAsync(arena->data(), round, kBytes, first.get()), "cudaMemsetAsync");
    end.record(first);
    second.wait(end);
    unsigned char seen = 0;
    check(
        cudaMemcpyAsync(&seen, arena->data() + kBytes - 1, 1, cudaMemcpyDeviceToHost, second.get()),
        "cudaMemcpyAsync");
    second.synchronize();
    EXPECT_EQ(seen, 19);
    EXPECT_TRUE(end.is_done());
    EXPECT_GT(elapsed_ms(begin, end), 0.0F);
}

TEST_F(Streams, can_be_moved) {
    Stream a;
    CUstream_st* const stream = a.get();
    Stream b(std::move(a));
    EXPECT_EQ(b.get(), stream);
    b = Stream();
    b.synchronize();
}

TEST_F(Devices, are_chosen_for_a_scope) {
    int before = -1, inside = -1, after = -1;
    const int last = static_cast<int>(devices().size()) - 1;
    ASSERT_EQ(cudaGetDevice(&before), cudaSuccess);
    {
        const DeviceGuard guard(last);
        ASSERT_EQ(cudaGetDevice(&inside), cudaSuccess);
    }
    ASSERT_EQ(cudaGetDevice(&after), cudaSuccess);
    EXPECT_EQ(inside, last);
    EXPECT_EQ(after, before);
}

TEST_F(Devices, have_free_memory) {
    for (const Device& device : devices()) {
        EXPECT_GT(free_memory(device.ordinal), 0U);
        EXPECT_LE(free_memory(device.ordinal), device.memory);
    }
}

TEST_F(Devices, name_what_failed) {
    try {
        check(cudaErrorMisalignedAddress, "cudaLaunchKernel");
        FAIL() << "took an error for none";
    } catch (const TransportError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("cudaLaunchKernel on GPU 0: "), std::string::npos) << text;
        EXPECT_NE(text.find("cudaErrorMisalignedAddress"), std::string::npos) << text;
    }
    EXPECT_THROW(check(cudaErrorMemoryAllocation, "cudaMalloc"), ConfigError);
    EXPECT_THROW(check_driver(2, "cuMemCreate"), ConfigError);
    EXPECT_NE(driver_function("cuMemCreate"), nullptr);
    EXPECT_THROW((void)driver_function("cuNoSuchFunction"), ConfigError);
}

}  // namespace
}  // namespace weightlift::cuda
