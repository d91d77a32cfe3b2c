#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "cuda_ipc/join.hpp"

namespace weightlift::transport::cuda_ipc {
namespace {

constexpr Bytes kMaxRow = 1000, kMaxPitch = 100000;

/// Where each destination byte comes from; fails where one is written twice.
using Image = std::map<std::pair<std::uint32_t, Bytes>, Bytes>;
Image image_of(const std::vector<plan::Copy>& copies) {
    Image image;
    for (const plan::Copy& copy : copies)
        for (std::uint64_t row = 0; row < copy.rows; ++row)
            for (Bytes i = 0; i < copy.row_bytes; ++i)
                EXPECT_TRUE(image
                                .emplace(std::pair(copy.destination,
                                                   copy.dst_offset + row * copy.dst_pitch + i),
                                         copy.src_offset + row * copy.src_pitch + i)
                                .second);
    return image;
}

plan::Copy contiguous(Bytes src, Bytes dst, Bytes bytes, std::uint32_t destination = 0) {
    return {destination, src, bytes, dst, bytes, 1, bytes};
}

/// Layers of a few parameters each, at random places of their own in source and destination.
std::vector<plan::Copy> layers(std::mt19937_64& random) {
    std::vector<plan::Copy> copies;
    Bytes src = random() % 500, dst = random() % 500;
    const std::uint64_t layers = 1 + random() % 12, parameters = 1 + random() % 6;
    std::vector<Bytes> sizes;
    for (std::uint64_t p = 0; p < parameters; ++p) sizes.push_back(1 + random() % 3 * 40);
    const Bytes gap = random() % 64;
    for (std::uint64_t layer = 0; layer < layers; ++layer)
        for (const Bytes size : sizes) {
            copies.push_back(
                contiguous(src, dst, size, static_cast<std::uint32_t>(random() % 9 == 0)));
            src += size + gap + (random() % 17 == 0 ? 8 : 0);
            dst += size;
        }
    if (random() % 2 == 0) std::shuffle(copies.begin(), copies.end(), random);
    copies.push_back({0, 0, 70, dst + 100, 50, 3, 30});
    return copies;
}

TEST(JoinEvenCopies, moves_the_same_bytes_to_the_same_places) {
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const auto copies = layers(random);
        const auto joined = join_even_copies(copies, kMaxRow, kMaxPitch);
        EXPECT_EQ(image_of(joined), image_of(copies));
        EXPECT_LE(joined.size(), copies.size());
    }
}

TEST(JoinEvenCopies, makes_one_copy_of_a_parameter_of_every_layer) {
    // Per layer two parameters of one size and one of another.
    std::vector<plan::Copy> copies;
    for (Bytes layer = 0; layer < 36; ++layer) {
        copies.push_back(contiguous(layer * 1000, layer * 2000, 100));
        copies.push_back(contiguous(layer * 1000 + 150, layer * 2000 + 700, 100));
        copies.push_back(contiguous(layer * 1000 + 400, layer * 2000 + 100, 300));
    }
    const auto joined = join_even_copies(copies, kMaxRow, kMaxPitch);
    ASSERT_EQ(joined.size(), 3U);
    EXPECT_EQ(joined[0], (plan::Copy{0, 0, 1000, 0, 2000, 36, 100}));
    EXPECT_EQ(joined[1], (plan::Copy{0, 150, 1000, 700, 2000, 36, 100}));
    EXPECT_EQ(joined[2], (plan::Copy{0, 400, 1000, 100, 2000, 36, 300}));
}

struct Row {
    const char* name;
    std::vector<plan::Copy> copies;
};

TEST(JoinEvenCopies, leaves_alone_what_is_not_even) {
    const Row table[] = {
        {"two only", {contiguous(0, 0, 10), contiguous(100, 100, 10)}},
        {"uneven at the source",
         {contiguous(0, 0, 10), contiguous(100, 100, 10), contiguous(201, 200, 10)}},
        {"uneven at the destination",
         {contiguous(0, 0, 10), contiguous(100, 100, 10), contiguous(200, 201, 10)}},
        {"of several sizes",
         {contiguous(0, 0, 10), contiguous(100, 100, 11), contiguous(200, 200, 12)}},
        {"to several destinations",
         {contiguous(0, 0, 10), contiguous(100, 100, 10, 1), contiguous(200, 200, 10, 2)}},
        {"backwards at the destination",
         {contiguous(0, 200, 10), contiguous(100, 100, 10), contiguous(200, 0, 10)}},
        {"too far apart",
         {contiguous(0, 0, 10), contiguous(100001, 100, 10), contiguous(200002, 200, 10)}},
        {"the same source for all",
         {contiguous(0, 0, 10), contiguous(0, 100, 10), contiguous(0, 200, 10)}},
        {"too long",
         {contiguous(0, 0, 1001), contiguous(2000, 2000, 1001), contiguous(4000, 4000, 1001)}},
    };
    for (const Row& row : table)
        EXPECT_EQ(join_even_copies(row.copies, kMaxRow, kMaxPitch), row.copies) << row.name;
}

}  // namespace
}  // namespace weightlift::transport::cuda_ipc
