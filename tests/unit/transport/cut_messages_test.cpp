#include <random>

#include <gtest/gtest.h>

#include "staged/cut.hpp"

namespace weightlift::transport::staged {
namespace {

constexpr Bytes kArena = 1 << 18;

std::vector<plan::Copy> random_copies(std::mt19937_64& random, std::size_t destinations) {
    std::vector<Bytes> end(destinations);
    std::vector<plan::Copy> copies;
    for (int i = 0; i < 80; ++i) {
        plan::Copy copy{.destination = static_cast<std::uint32_t>(random() % destinations)};
        copy.rows = random() % 2 == 0 ? 1 + random() % 30 : random() % 2;
        copy.row_bytes = random() % 7 == 0 ? 0 : 1 + random() % 900;
        copy.src_pitch = copy.row_bytes + random() % 100;
        copy.dst_pitch = copy.row_bytes + random() % 100;
        copy.src_offset = random() % (kArena / 4);
        copy.dst_offset = end[copy.destination];
        end[copy.destination] += copy.rows * copy.dst_pitch + random() % 20;
        if (end[copy.destination] < kArena) copies.push_back(copy);
    }
    return copies;
}

TEST(CutMessages, carries_every_byte_once_through_a_buffer_to_where_the_plan_says) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const std::size_t destinations = 1 + random() % 4;
        std::vector<Bytes> most;
        for (std::size_t d = 0; d < destinations; ++d) most.push_back(1 + random() % 3000);
        const auto copies = random_copies(random, destinations);
        const Cut cut = cut_messages(copies, most);

        // Bytes are named by where they come from; 0: never written.
        std::vector<std::vector<std::uint64_t>> expected(destinations), actual;
        for (auto& memory : expected) memory.resize(kArena);
        actual = expected;
        for (const plan::Copy& copy : copies)
            for (std::uint64_t row = 0; row < copy.rows; ++row)
                for (Bytes i = 0; i < copy.row_bytes; ++i)
                    expected[copy.destination][copy.dst_offset + row * copy.dst_pitch + i] =
                        copy.src_offset + row * copy.src_pitch + i + 1;
        std::size_t parts = 0;
        for (const Message& message : cut.messages) {
            EXPECT_LE(message.bytes, most[message.destination]);
            EXPECT_EQ(message.first, parts);
            parts += message.count;
            std::vector<std::uint64_t> buffer(message.bytes);
            Bytes filled = 0;
            for (std::size_t p = message.first; p < parts; ++p) {
                const Part& part = cut.parts[p];
                EXPECT_EQ(part.at, filled) << "parts lie one behind the other";
                filled += part.bytes();
                for (std::uint64_t row = 0; row < part.rows; ++row)
                    for (Bytes i = 0; i < part.row_bytes; ++i)
                        buffer.at(part.at + row * part.row_bytes + i) =
                            part.src_offset + row * part.src_pitch + i + 1;
            }
            EXPECT_EQ(filled, message.bytes);
            for (std::size_t p = message.first; p < parts; ++p) {
                const Part& part = cut.parts[p];
                for (std::uint64_t row = 0; row < part.rows; ++row)
                    for (Bytes i = 0; i < part.row_bytes; ++i) {
                        auto& at =
                            actual[message.destination][part.dst_offset + row * part.dst_pitch + i];
                        EXPECT_EQ(at, 0U) << "written twice";
                        at = buffer[part.at + row * part.row_bytes + i];
                    }
            }
        }
        EXPECT_EQ(parts, cut.parts.size());
        EXPECT_EQ(actual, expected);
    }
}

TEST(CutMessages, sends_something_to_a_destination_that_gets_no_byte) {
    const std::vector<Bytes> most(3, 100);
    const plan::Copy copies[] = {{1, 0, 8, 0, 8, 1, 8}, {2, 0, 8, 0, 8, 0, 8}};
    const Cut cut = cut_messages(copies, most);
    std::vector<int> messages(3);
    for (const Message& message : cut.messages) ++messages[message.destination];
    EXPECT_EQ(messages, (std::vector<int>{1, 1, 1}));
}

TEST(CutMessages, ends_a_message_with_every_segment) {
    const std::vector<Bytes> most(3, 100);
    const plan::Copy copies[] = {
        {0, 0, 150, 0, 150, 1, 150}, {0, 200, 50, 200, 50, 1, 50}, {1, 0, 100, 0, 100, 1, 100}};
    // Two messages, an empty one, one that is exactly full, and a notice without a segment.
    const Segment segments[] = {{1, 0, 0}, {1, 1, 1}, {2, 0, 1}, {3, 1, 2}};
    struct Row {
        std::uint32_t destination, needs, signals;
        Bytes bytes;
    };
    const Row expected[] = {{0, 1, 0, 100}, {0, 1, 1, 50},  {1, 2, 1, 0},
                            {0, 3, 2, 50},  {1, 4, 2, 100}, {2, 4, 0, 0}};
    const Cut cut = cut_messages(copies, most, segments);
    ASSERT_EQ(cut.messages.size(), std::size(expected));
    for (std::size_t i = 0; i < std::size(expected); ++i) {
        SCOPED_TRACE(i);
        EXPECT_EQ(cut.messages[i].destination, expected[i].destination);
        EXPECT_EQ(cut.messages[i].needs, expected[i].needs);
        EXPECT_EQ(cut.messages[i].signals, expected[i].signals);
        EXPECT_EQ(cut.messages[i].bytes, expected[i].bytes);
    }
}

TEST(CutMessages, cuts_no_row_that_fits_into_a_message) {
    const std::vector<Bytes> most(1, 100);
    const plan::Copy copies[] = {{0, 0, 80, 0, 60, 5, 60}, {0, 1000, 250, 1000, 250, 1, 250}};
    for (const Part& part : cut_messages(copies, most).parts)
        EXPECT_TRUE(part.row_bytes == 60 || part.src_offset >= 1000) << part.row_bytes;
}

}  // namespace
}  // namespace weightlift::transport::staged
