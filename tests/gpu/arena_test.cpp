#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weightlift/base/error.hpp"

#include "device_memory.hpp"

namespace weightlift::memory {
namespace {

class CudaArena : public AnyDeviceMemory {};

TEST_P(CudaArena, is_zeroed_and_knows_what_it_is) {
    constexpr Bytes kBytes = 5 * MiB + 3;
    const ByteBlock all{0, 0, 1, kBytes};
    for (int round = 0; round < 2; ++round) {
        const auto arena = make_cuda_arena(kBytes, options());
        EXPECT_EQ(arena->kind(), MemoryKind::Cuda);
        EXPECT_EQ(arena->bytes(), kBytes);
        EXPECT_EQ(arena->extent(), kBytes);
        EXPECT_FALSE(arena->first_nonzero({&all, 1})) << "round " << round;
        // The next round gets this memory again.
        arena->poison(std::vector<Block>{{0, kBytes, {{0, 1}, {0, kBytes}}, DType::F8E4M3, 1}});
        EXPECT_EQ(arena->first_nonzero({&all, 1}), 0U);
    }
}

TEST_P(CudaArena, may_be_empty) {
    const auto arena = make_cuda_arena(0, options());
    EXPECT_EQ(arena->bytes(), 0U);
    EXPECT_EQ(arena->dmabuf(0, 0), std::nullopt);
    arena->fill({}, 1);
    arena->fingerprint({}, {});
    EXPECT_FALSE(arena->compare({}, 1));
    EXPECT_FALSE(arena->first_nonzero({}));
}

TEST_P(CudaArena, refuses_more_than_the_device_has_by_bytes_and_device) {
    const auto& device = weightlift::cuda::devices().front();
    const Bytes too_much = device.memory + GiB;
    try {
        (void)make_cuda_arena(too_much, options());
        FAIL() << "got " << too_much << " bytes";
    } catch (const ConfigError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find(fmt::format("{} bytes", too_much)), std::string::npos) << text;
        EXPECT_NE(text.find(device.pci), std::string::npos) << text;
    }
    // Not the end of the device.
    EXPECT_EQ(make_cuda_arena(MiB, options())->bytes(), MiB);
}

TEST_P(CudaArena, refuses_blocks_beyond_its_end) {
    const auto arena = make_cuda_arena(1000, options());
    const Block beyond{900, 0, {{0, 1}, {0, 51}}, DType::BF16, 1};
    EXPECT_THROW(arena->fill({&beyond, 1}, 1), Error);
    EXPECT_THROW((void)arena->compare({&beyond, 1}, 1), Error);
    EXPECT_THROW(arena->flip(1000), Error);
}

TEST_P(CudaArena, gives_its_file_descriptor_where_it_has_one) {
    const auto arena = make_cuda_arena(MiB, options());
    struct stat status {};
    if (GetParam() == DeviceMemory::Vmm)
        EXPECT_EQ(::fstat(arena->share_fd(), &status), 0);
    else
        EXPECT_EQ(arena->share_fd(), -1);
}

TEST_P(CudaArena, takes_more_memory_than_it_holds_where_that_is_asked_for) {
    CudaOptions longer = options();
    longer.at_least = 8 * MiB;
    const auto arena = make_cuda_arena(1000, longer);
    EXPECT_EQ(arena->bytes(), 1000U);
    EXPECT_GE(share_cuda_arena(*arena).size, 8 * MiB);
}

TEST_P(CudaArena, exports_parts_as_dma_bufs) {
    constexpr Bytes kBytes = 4 * MiB + 100;
    const auto arena = make_cuda_arena(kBytes, options());
    const auto page = static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
    struct Row {
        const char* name;
        Bytes offset, bytes;
    };
    for (const Row& row : {Row{"all", 0, kBytes}, Row{"a page", page, page},
                           Row{"inside a page", page + 8, 100}, Row{"the end", 4 * MiB, 100}}) {
        const auto part = arena->dmabuf(row.offset, row.bytes);
        if (!part) GTEST_SKIP() << "this driver exports no dma-buf of device memory";
        EXPECT_GE(::fcntl(part->fd, F_GETFD), 0) << row.name;
        EXPECT_EQ(part->offset, row.offset % page) << row.name;
        // Some drivers tell no size; none tells one that is too small.
        const off_t size = ::lseek(part->fd, 0, SEEK_END);
        EXPECT_TRUE(size <= 0 || static_cast<Bytes>(size) >= part->offset + row.bytes) << row.name;
        ::close(part->fd);
    }
}

TEST_P(CudaArena, flushes_remote_writes_where_it_can) {
    const auto arena = make_cuda_arena(MiB, options());
    const RemoteWrites writes = arena->remote_writes();
    if (!writes.can_flush) GTEST_SKIP() << "this device has no flush of remote writes";
    arena->flush_remote_writes();
}

TEST_P(CudaArena, works_on_its_own_device_whichever_is_current) {
    if (weightlift::cuda::devices().size() < 2) GTEST_SKIP() << "one GPU";
    const Block block{0, 0, {{0, 1}, {0, 4096}}, DType::BF16, 1};
    const auto first = make_cuda_arena(8192, options(0));
    const auto second = make_cuda_arena(8192, options(1));
    int current = -1;
    for (const int device : {0, 1}) {
        const weightlift::cuda::DeviceGuard guard(device);
        for (Arena* arena : {first.get(), second.get()}) {
            arena->fill({&block, 1}, 3);
            EXPECT_FALSE(arena->compare({&block, 1}, 3));
            ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
            EXPECT_EQ(current, device);
        }
    }
    EXPECT_EQ(download(*first), download(*second));
    for (const auto& [arena, device] : {std::pair{first.get(), 0}, std::pair{second.get(), 1}}) {
        cudaPointerAttributes attributes{};
        ASSERT_EQ(cudaPointerGetAttributes(&attributes, arena->data()), cudaSuccess);
        EXPECT_EQ(attributes.device, device);
    }
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaArena, testing::Values(DeviceMemory::Malloc, DeviceMemory::Vmm),
                         method_name);

}  // namespace
}  // namespace weightlift::memory
