#include "weightlift/memory/host_kernels.hpp"

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/base/values.hpp"

namespace weightlift::memory {
namespace {

constexpr DType kDTypes[] = {DType::BF16, DType::F16, DType::F32, DType::F8E4M3};
constexpr std::uint64_t kTensor = hash_name("model.layers.3.mlp.up_proj.weight");

std::uint32_t read_element(DType dtype, const std::byte* at) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, at, element_bytes(dtype));  // little-endian
    return bits;
}

/// Bytes that a block ends at, for an arena that just holds it.
Bytes end_of(const Block& block) {
    if (block.box.empty()) return block.offset;
    return block.offset + (block.box.rows.size() - 1) * block.pitch +
           block.box.columns.size() * element_bytes(block.dtype);
}

Block block_of(DType dtype, Interval rows, Interval columns, Bytes extra_pitch, Bytes offset) {
    return {offset,
            columns.size() * element_bytes(dtype) + extra_pitch,
            {rows, columns},
            dtype,
            kTensor};
}

/// Calls body(row, column, byte offset) for each element.
template <class F>
void for_each_element(const Block& block, F body) {
    for (std::uint64_t r = block.box.rows.begin; r < block.box.rows.end; ++r)
        for (std::uint64_t c = block.box.columns.begin; c < block.box.columns.end; ++c)
            body(r, c,
                 block.offset + (r - block.box.rows.begin) * block.pitch +
                     (c - block.box.columns.begin) * element_bytes(block.dtype));
}

struct Shape {
    const char* name;
    Interval rows;
    Interval columns;
    Bytes extra_pitch;
    Bytes offset;
};

constexpr Shape kShapes[] = {
    {"one element", {0, 1}, {0, 1}, 0, 0},
    {"no rows", {4, 4}, {0, 8}, 0, 0},
    {"no columns", {0, 4}, {8, 8}, 16, 0},
    {"below a vector", {5, 8}, {3, 10}, 0, 0},
    {"vector and a tail", {0, 3}, {0, 37}, 6, 12},
    {"odd offset and pitch", {1000, 1007}, {129, 1024}, 5, 3},
    {"wider than the key table", {7, 9}, {5, 40000}, 128, 64},
    {"last legal columns", {0, 2}, {kMaxColumns - 70, kMaxColumns}, 0, 0},
    {"high rows", {std::uint64_t{1} << 33, (std::uint64_t{1} << 33) + 3}, {0, 100}, 0, 0},
};

std::string case_name(const Shape& shape, DType dtype, Isa isa) {
    return std::string(shape.name) + ", " + std::string(to_string(dtype)) +
           (isa == Isa::Avx2 ? ", AVX2" : ", baseline");
}

template <class F>
void for_each_case(F body) {
    for (const Isa isa : {Isa::Baseline, Isa::Avx2}) {
        if (isa == Isa::Avx2 && best_isa() != Isa::Avx2) continue;
        for (const DType dtype : kDTypes) {
            for (const Shape& shape : kShapes) {
                SCOPED_TRACE(case_name(shape, dtype, isa));
                body(block_of(dtype, shape.rows, shape.columns, shape.extra_pitch, shape.offset),
                     isa);
            }
        }
    }
}

TEST(HostKernels, fill_writes_the_defined_value_of_each_element_and_no_other_byte) {
    for_each_case([](const Block& block, Isa isa) {
        constexpr std::byte kUntouched{0xa5};
        std::vector<std::byte> memory(end_of(block) + 64, kUntouched);
        fill(memory.data(), {{block}}, 9, isa);
        std::vector<std::byte> expected(memory.size(), kUntouched);
        for_each_element(block, [&](std::uint64_t r, std::uint64_t c, Bytes at) {
            const std::uint32_t bits = value_bits(block.dtype, value_row_key(kTensor, r, 9),
                                                  static_cast<std::uint32_t>(c));
            std::memcpy(expected.data() + at, &bits, element_bytes(block.dtype));
        });
        EXPECT_EQ(memory, expected);
    });
}

TEST(HostKernels, fingerprint_is_the_literal_sum) {
    for_each_case([](const Block& block, Isa isa) {
        std::vector<std::byte> memory(end_of(block) + 64);
        fill(memory.data(), {{block}}, 2, Isa::Baseline);
        std::uint64_t expected = 17;
        for_each_element(block, [&](std::uint64_t r, std::uint64_t c, Bytes at) {
            expected += (std::uint64_t{read_element(block.dtype, memory.data() + at)} + 1) *
                        row_fingerprint_key(kTensor, r) * column_fingerprint_key(kTensor, c);
        });
        std::uint64_t sum = 17;
        fingerprint(memory.data(), {{block}}, {&sum, 1}, isa);
        EXPECT_EQ(sum, expected);
    });
}

TEST(HostKernels, fingerprint_adds_up_over_any_split_of_the_box) {
    std::mt19937_64 random(20261129);
    for (int round = 0; round < 50; ++round) {
        SCOPED_TRACE(round);
        const DType dtype = kDTypes[random() % 4];
        const Bytes element = element_bytes(dtype);
        const Interval rows{random() % 1000, 1000 + random() % 40};
        const Interval columns{random() % 5000, 5000 + random() % 200};
        const Block whole = block_of(dtype, rows, columns, random() % 3 * element, 0);
        std::vector<std::byte> memory(end_of(whole));
        fill(memory.data(), {{whole}}, 1);
        std::uint64_t expected = 0;
        fingerprint(memory.data(), {{whole}}, {&expected, 1});

        // Cut rows and columns anywhere, empty parts included.
        const std::uint64_t row = rows.begin + random() % (rows.size() + 1);
        const std::uint64_t column = columns.begin + random() % (columns.size() + 1);
        std::vector<Block> parts;
        for (const Interval r : {Interval{rows.begin, row}, Interval{row, rows.end}})
            for (const Interval c :
                 {Interval{columns.begin, column}, Interval{column, columns.end}})
                parts.push_back(
                    {(r.begin - rows.begin) * whole.pitch + (c.begin - columns.begin) * element,
                     whole.pitch,
                     {r, c},
                     dtype,
                     kTensor});
        std::vector<std::uint64_t> sums(parts.size());
        fingerprint(memory.data(), parts, sums);
        EXPECT_EQ(sums[0] + sums[1] + sums[2] + sums[3], expected);
    }
}

TEST(HostKernels, fingerprint_sees_two_elements_swapped) {
    const Block block = block_of(DType::BF16, {0, 4}, {0, 64}, 0, 0);
    std::vector<std::byte> memory(end_of(block));
    fill(memory.data(), {{block}}, 1);
    std::uint64_t before = 0;
    fingerprint(memory.data(), {{block}}, {&before, 1});
    std::swap_ranges(memory.begin(), memory.begin() + 2, memory.begin() + 2 * 70);
    std::uint64_t after = 0;
    fingerprint(memory.data(), {{block}}, {&after, 1});
    EXPECT_NE(before, after);
}

TEST(HostKernels, compare_accepts_what_fill_wrote_and_no_other_version) {
    for_each_case([](const Block& block, Isa isa) {
        std::vector<std::byte> memory(end_of(block) + 64);
        fill(memory.data(), {{block}}, 5, Isa::Baseline);
        EXPECT_FALSE(compare(memory.data(), {{block}}, 5, isa));
        // fp8 agrees by chance in one element of 250, so look only where there are many.
        if (block.box.elements() > 100) {
            EXPECT_TRUE(compare(memory.data(), {{block}}, 6, isa));
        }
    });
}

TEST(HostKernels, compare_names_the_first_wrong_element_and_counts_all) {
    for (const Isa isa : {Isa::Baseline, best_isa()}) {
        for (const DType dtype : kDTypes) {
            SCOPED_TRACE(to_string(dtype));
            const Block first = block_of(dtype, {10, 20}, {100, 177}, 4, 8);
            Block second = block_of(dtype, {50, 60}, {0, 33}, 0, 0);
            second.offset = round_up(end_of(first), 16);
            const std::vector<Block> blocks = {first, second};
            std::vector<std::byte> memory(end_of(second));
            fill(memory.data(), blocks, 3);

            const Bytes element = element_bytes(dtype);
            const Bytes wrong = second.offset + 2 * second.pitch + 32 * element;  // row 52, last
            const std::uint32_t expected = read_element(dtype, memory.data() + wrong);
            memory[wrong] ^= std::byte{1};
            memory[second.offset + 9 * second.pitch] ^= std::byte{0x80};
            auto found = compare(memory.data(), blocks, 3, isa);
            ASSERT_TRUE(found);
            EXPECT_EQ(found->block, 1U);
            EXPECT_EQ(found->row, 52U);
            EXPECT_EQ(found->column, 32U);
            EXPECT_EQ(found->expected, expected);
            EXPECT_EQ(found->actual, expected ^ 1U);
            EXPECT_EQ(found->count, 2U);

            memory[first.offset + 9 * first.pitch + 76 * element] ^= std::byte{2};
            found = compare(memory.data(), blocks, 3, isa);
            ASSERT_TRUE(found);
            EXPECT_EQ(found->block, 0U);
            EXPECT_EQ(found->row, 19U);
            EXPECT_EQ(found->column, 176U);
            EXPECT_EQ(found->count, 3U);
        }
    }
}

TEST(HostKernels, every_poisoned_element_is_a_mismatch) {
    for_each_case([](const Block& block, Isa isa) {
        std::vector<std::byte> memory(end_of(block) + 64);
        poison(memory.data(), {{block}});
        for (std::uint64_t version = 0; version < 5; ++version) {
            const auto found = compare(memory.data(), {{block}}, version, isa);
            EXPECT_EQ(found ? found->count : 0, block.box.elements());
        }
    });
}

TEST(HostKernels, no_bit_pattern_becomes_poison) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        ASSERT_NE(finite_bf16(bits), 0xffffU);
        ASSERT_NE(finite_f16(bits), 0xffffU);
        ASSERT_NE(finite_f8(bits), 0xffU);
        ASSERT_NE(finite_f32(bits << 16 | 0xffffU), 0xffffffffU);
    }
}

TEST(HostKernels, poison_leaves_bytes_between_rows_alone) {
    const Block block = block_of(DType::F16, {0, 3}, {0, 5}, 7, 2);
    std::vector<std::byte> memory(end_of(block) + 8, std::byte{1});
    poison(memory.data(), {{block}});
    for (Bytes i = 0; i < memory.size(); ++i) {
        const bool inside = i >= 2 && i < end_of(block) && (i - 2) % block.pitch < 10;
        EXPECT_EQ(memory[i], inside ? std::byte{0xff} : std::byte{1}) << i;
    }
}

TEST(HostKernels, first_nonzero_finds_the_first_byte_inside_the_blocks) {
    std::vector<std::byte> memory(4096);
    const std::vector<ByteBlock> blocks = {{100, 50, 10, 33}, {2000, 100, 5, 100}};
    EXPECT_FALSE(first_nonzero(memory.data(), blocks));
    memory[100 + 33] = std::byte{1};  // between two rows
    memory[99] = std::byte{1};
    EXPECT_FALSE(first_nonzero(memory.data(), blocks));
    memory[2499] = std::byte{1};
    EXPECT_EQ(first_nonzero(memory.data(), blocks), 2499U);
    memory[100 + 9 * 50 + 32] = std::byte{4};
    EXPECT_EQ(first_nonzero(memory.data(), blocks), 582U);
}

}  // namespace
}  // namespace weightlift::memory
