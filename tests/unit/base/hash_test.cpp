// The hashes are part of the file formats: values must never change.
#include "weightlift/base/hash.hpp"

#include <set>

#include <gtest/gtest.h>

namespace weightlift {
namespace {

constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15ULL;

TEST(SplitMix64, gives_the_published_sequence_of_seed_1234567) {
    // A generator with state s returns splitmix64(s), then adds gamma to s.
    constexpr std::uint64_t expected[] = {6457827717110365317ULL, 3203168211198807973ULL,
                                          9817491932198370423ULL, 4593380528125082431ULL,
                                          16408922859458223821ULL};
    std::uint64_t state = 1234567;
    for (const std::uint64_t value : expected) {
        EXPECT_EQ(splitmix64(state), value);
        state += kGamma;
    }
}

TEST(SplitMix64, gives_the_published_sequence_of_seed_0) {
    constexpr std::uint64_t expected[] = {0xe220a8397b1dcdafULL, 0x6e789e6aa1b965f4ULL,
                                          0x06c45d188009454fULL, 0xf88bb8a8724c81ecULL,
                                          0x1b39896a51a8749bULL};
    std::uint64_t state = 0;
    for (const std::uint64_t value : expected) {
        EXPECT_EQ(splitmix64(state), value);
        state += kGamma;
    }
}

TEST(HashName, is_fnv_1a_then_mixed) {
    // FNV-1a's published values: offset basis for "", and of "a" and "foobar".
    EXPECT_EQ(hash_name(""), splitmix64(0xcbf29ce484222325ULL));
    EXPECT_EQ(hash_name("a"), splitmix64(0xaf63dc4c8601ec8cULL));
    EXPECT_EQ(hash_name("foobar"), splitmix64(0x85944171f73967e8ULL));
}

TEST(HashName, treats_bytes_as_unsigned) {
    // 0xff must not be sign-extended.
    EXPECT_EQ(hash_name("\xff"), splitmix64((0xcbf29ce484222325ULL ^ 0xffULL) * 0x100000001b3ULL));
}

TEST(Mix, depends_on_order_and_on_every_argument) {
    std::set<std::uint64_t> values;
    for (std::uint64_t a = 0; a < 64; ++a)
        for (std::uint64_t b = 0; b < 64; ++b) values.insert(mix(mix(7, a), b));
    EXPECT_EQ(values.size(), 64U * 64U);
}

}  // namespace
}  // namespace weightlift
