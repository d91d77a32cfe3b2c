// The GPU's bulk operations against the CPU's, bit for bit.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "weightlift/base/values.hpp"

#include "device_memory.hpp"

namespace weightlift::memory {
namespace {

constexpr DType kDTypes[] = {DType::BF16, DType::F16, DType::F32, DType::F8E4M3};

/// Disjoint blocks, one behind the other, and the arena that just holds them.
struct Scene {
    std::vector<Block> blocks;
    Bytes bytes = 0;

    void add(DType dtype, Interval rows, Interval columns, Bytes extra_pitch, Bytes gap) {
        const Bytes row_bytes = columns.size() * element_bytes(dtype);
        const Block block{bytes + gap,
                          row_bytes + extra_pitch,
                          {rows, columns},
                          dtype,
                          hash_name("tensor " + std::to_string(blocks.size() / 2))};
        blocks.push_back(block);
        bytes = block.offset + rows.size() * block.pitch;
    }
};

/// Odd widths, pitches and offsets beside aligned ones, all types, some blocks empty.
Scene random_scene(unsigned seed, int blocks) {
    std::mt19937 random(seed);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    Scene scene;
    for (int i = 0; i < blocks; ++i) {
        const DType dtype = kDTypes[up_to(3)];
        const std::uint64_t row = up_to(100'000), column = up_to(100'000);
        const bool is_tall = up_to(1) == 1, is_aligned = up_to(1) == 1;
        std::uint64_t rows = up_to(is_tall ? 700 : 40), columns = up_to(is_tall ? 40 : 1500);
        Bytes pitch = up_to(1) * up_to(70), gap = up_to(40);
        if (is_aligned) {
            columns = columns / 16 * 16;
            pitch = pitch / 16 * 16;
            gap += round_up(scene.bytes + gap, 16) - (scene.bytes + gap);
        }
        scene.add(dtype, {row, row + rows}, {column, column + columns}, pitch, gap);
    }
    return scene;
}

/// Shapes of models and corners of the definition.
Scene chosen_scene() {
    Scene scene;
    for (const DType dtype : kDTypes) {
        const auto start = [&] { return round_up(scene.bytes, 256) - scene.bytes; };
        scene.add(dtype, {0, 1}, {0, 1}, 0, start());
        scene.add(dtype, {0, 1}, {0, 7168}, 0, start());
        scene.add(dtype, {3, 200}, {64, 64 + 7168}, 0, start());
        scene.add(dtype, {0, 300}, {0, 128}, 512, start());
        scene.add(dtype, {0, 5000}, {0, 8}, 0, start());
        scene.add(dtype, {0, 65}, {0, 352}, 64, start());
        scene.add(dtype, {0, 3}, {kMaxColumns - 160, kMaxColumns}, 0, start());
        scene.add(dtype, {std::uint64_t{1} << 33, (std::uint64_t{1} << 33) + 70}, {0, 100}, 0,
                  start());
        scene.add(dtype, {4, 4}, {0, 8}, 0, 0);
        scene.add(dtype, {0, 8}, {8, 8}, 16, 0);
    }
    return scene;
}

class Kernels : public AnyDeviceMemory {
protected:
    static void expect_equal(const Arena& host, const Arena& device) {
        const auto bytes = download(device);
        const std::byte* const expected = host.data();
        const auto at = std::mismatch(bytes.begin(), bytes.end(), expected);
        ASSERT_TRUE(at.first == bytes.end())
            << "first difference at byte " << at.first - bytes.begin() << " of " << bytes.size();
    }

    static void expect_equal(const std::optional<Mismatch>& host,
                             const std::optional<Mismatch>& device) {
        ASSERT_EQ(host.has_value(), device.has_value());
        if (!host) return;
        EXPECT_EQ(host->block, device->block);
        EXPECT_EQ(host->row, device->row);
        EXPECT_EQ(host->column, device->column);
        EXPECT_EQ(host->expected, device->expected);
        EXPECT_EQ(host->actual, device->actual);
        EXPECT_EQ(host->count, device->count);
    }

    static void expect_same_fingerprints(const Scene& scene, const Arena& host,
                                         const Arena& device) {
        // Sums are added to, not set.
        std::vector<std::uint64_t> a(scene.blocks.size(), 17), b(scene.blocks.size(), 17);
        host.fingerprint(scene.blocks, a);
        device.fingerprint(scene.blocks, b);
        EXPECT_EQ(a, b);
    }

    void run(const Scene& scene, unsigned seed) {
        const auto host = make_host_arena(scene.bytes);
        const auto device = make_cuda_arena(scene.bytes, options());
        // What lies between blocks must stay as it is.
        std::mt19937 random(seed);
        std::generate_n(reinterpret_cast<std::uint8_t*>(host->data()), scene.bytes,
                        [&] { return static_cast<std::uint8_t>(random()); });
        upload(*device, {host->data(), host->data() + scene.bytes});
        expect_same_fingerprints(scene, *host, *device);
        expect_equal(host->compare(scene.blocks, 5), device->compare(scene.blocks, 5));

        for (Arena* arena : {host.get(), device.get()}) arena->fill(scene.blocks, 5);
        expect_equal(*host, *device);
        EXPECT_FALSE(device->compare(scene.blocks, 5));
        expect_equal(host->compare(scene.blocks, 4), device->compare(scene.blocks, 4));
        expect_same_fingerprints(scene, *host, *device);

        for (int flips = 0; flips < 6; ++flips) {
            const Bytes at = random() % scene.bytes;
            for (Arena* arena : {host.get(), device.get()}) arena->flip(at);
            expect_equal(host->compare(scene.blocks, 5), device->compare(scene.blocks, 5));
        }
        expect_same_fingerprints(scene, *host, *device);

        for (Arena* arena : {host.get(), device.get()}) arena->poison(scene.blocks);
        expect_equal(*host, *device);
        expect_equal(host->compare(scene.blocks, 5), device->compare(scene.blocks, 5));
    }
};

TEST_P(Kernels, agree_with_the_cpu_on_random_blocks) {
    for (unsigned seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(seed);
        run(random_scene(seed, 40), seed);
        if (HasFatalFailure()) return;
    }
}

TEST_P(Kernels, agree_with_the_cpu_on_chosen_shapes) { run(chosen_scene(), 99); }

// More items than the GPU has room for at once, in more than one block.
TEST_P(Kernels, agree_with_the_cpu_on_large_blocks) {
    Scene scene;
    scene.add(DType::BF16, {10, 12'010}, {0, 7168}, 0, 0);
    scene.add(DType::BF16, {0, 9000}, {1024, 5120}, 4096, 0);
    run(scene, 7);
}

TEST_P(Kernels, find_one_wrong_byte_in_any_block) {
    const Scene scene = random_scene(3, 30);
    const auto device = make_cuda_arena(scene.bytes, options());
    device->fill(scene.blocks, 1);
    for (std::size_t b = 0; b < scene.blocks.size(); ++b) {
        const Block& block = scene.blocks[b];
        if (block.box.empty()) continue;
        const Bytes last = block.offset + (block.box.rows.size() - 1) * block.pitch +
                           block.box.columns.size() * element_bytes(block.dtype) - 1;
        device->flip(last);
        const auto found = device->compare(scene.blocks, 1);
        ASSERT_TRUE(found) << "block " << b;
        EXPECT_EQ(found->block, b);
        EXPECT_EQ(found->row, block.box.rows.end - 1);
        EXPECT_EQ(found->column, block.box.columns.end - 1);
        EXPECT_EQ(found->count, 1U);
        device->flip(last);
    }
    EXPECT_FALSE(device->compare(scene.blocks, 1));
}

TEST_P(Kernels, find_the_first_byte_that_is_not_zero) {
    constexpr Bytes kBytes = 1 << 20;
    const auto host = make_host_arena(kBytes);
    const auto device = make_cuda_arena(kBytes, options());
    // Not in the order of addresses.
    const std::vector<ByteBlock> blocks{{500'000, 1000, 300, 700},
                                        {0, 0, 0, 5},
                                        {3, 33, 1000, 17},
                                        {400'000, 64, 100, 64},
                                        {900'001, 1, 1, 100'000}};
    EXPECT_FALSE(device->first_nonzero(blocks));
    std::mt19937 random(8);
    for (int i = 0; i < 200; ++i) {
        const Bytes at = random() % kBytes;
        for (Arena* arena : {host.get(), device.get()}) arena->flip(at);
        ASSERT_EQ(host->first_nonzero(blocks), device->first_nonzero(blocks)) << "flip " << i;
    }
}

// Lists are kept on the GPU: one that differs in a block must not pass for another.
TEST_P(Kernels, tell_spans_apart) {
    Scene scene = random_scene(5, 20);
    const auto host = make_host_arena(scene.bytes);
    const auto device = make_cuda_arena(scene.bytes, options());
    for (std::size_t changed = 0; changed < 10; ++changed) {
        scene.blocks[changed].tensor ^= 1;
        for (Arena* arena : {host.get(), device.get()}) arena->fill(scene.blocks, changed);
        expect_equal(*host, *device);
        const std::span<const Block> some(scene.blocks.data() + changed, 5);
        EXPECT_FALSE(device->compare(some, changed));
    }
}

INSTANTIATE_TEST_SUITE_P(Gpu, Kernels, testing::Values(DeviceMemory::Malloc, DeviceMemory::Vmm),
                         method_name);

}  // namespace
}  // namespace weightlift::memory
