// Whatever the copies and the rules: every byte gets where it belongs, once, and no request breaks
// a rule.
#include "requests.hpp"

#include <random>

#include <gtest/gtest.h>

namespace weightlift::transport::verbs {
namespace {

using Random = std::mt19937_64;

Bytes between(Random& random, Bytes low, Bytes high) {
    return std::uniform_int_distribution<Bytes>(low, high)(random);
}

struct Case {
    std::vector<Copy> copies;
    CutRules rules;
    Bytes src_bytes = 0, dst_bytes = 0;  ///< of the source and of each destination
};

/// Copies side by side at both ends, for two destinations.
Case make_case(std::uint64_t seed) {
    Random random(seed);
    Case c;
    Bytes dst_end[2] = {0, 0};
    for (Bytes n = between(random, 1, 6); n > 0; --n) {
        Copy copy;
        copy.destination = static_cast<std::uint32_t>(between(random, 0, 1));
        copy.rows = between(random, 0, 40);
        copy.row_bytes = between(random, 1, between(random, 0, 3) == 0 ? 9000 : 300);
        copy.src_pitch = copy.row_bytes + (between(random, 0, 1) == 0 ? 0 : between(random, 0, 90));
        copy.dst_pitch = copy.row_bytes + (between(random, 0, 1) == 0 ? 0 : between(random, 0, 90));
        copy.src_offset = c.src_bytes + between(random, 0, 50);
        copy.dst_offset = dst_end[copy.destination] + between(random, 0, 50);
        c.src_bytes = copy.src_offset + copy.rows * copy.src_pitch;
        dst_end[copy.destination] = copy.dst_offset + copy.rows * copy.dst_pitch;
        c.copies.push_back(copy);
    }
    c.dst_bytes = std::max(dst_end[0], dst_end[1]);
    c.rules.chunk = between(random, 64, 8192);
    c.rules.sge = between(random, 1, 30);
    c.rules.slot = between(random, 0, 1) == 0 ? 0 : between(random, 256, 4096);
    c.rules.src_piece = between(random, 0, 1) == 0 ? ~Bytes{0} : between(random, 1000, 9000);
    for (int d = 0; d < 2; ++d)
        c.rules.dst_piece.push_back(between(random, 0, 1) == 0 ? ~Bytes{0}
                                                               : between(random, 1000, 9000));
    const Bytes packed = between(random, 0, 400), unpacked = between(random, 0, 400);
    c.rules.packs = [packed](Bytes row) { return row < packed; };
    c.rules.unpacks = [unpacked](Bytes row) { return row < unpacked; };
    return c;
}

using Memory = std::vector<std::uint32_t>;  // for each byte: 1 + the source byte it came from

std::vector<Memory> by_copies(const Case& c) {
    std::vector<Memory> memory(2, Memory(c.dst_bytes, 0));
    for (const Copy& copy : c.copies)
        for (std::uint64_t row = 0; row < copy.rows; ++row)
            for (Bytes i = 0; i < copy.row_bytes; ++i)
                memory[copy.destination][copy.dst_offset + row * copy.dst_pitch + i] =
                    static_cast<std::uint32_t>(1 + copy.src_offset + row * copy.src_pitch + i);
    return memory;
}

/// As the device and the receiver do it.
std::vector<Memory> by_requests(const Case& c, const std::vector<Request>& requests) {
    std::vector<Memory> memory(2, Memory(c.dst_bytes, 0));
    for (const Request& r : requests)
        for (std::uint64_t row = 0; row < r.rows; ++row)
            for (Bytes i = 0; i < r.row_bytes; ++i) {
                // A write's bytes lie one after the other; a parcel's rows are put in place.
                const Bytes at =
                    r.dst_offset + (r.is_parcel ? row * r.dst_pitch : row * r.row_bytes) + i;
                std::uint32_t& to = memory[r.destination].at(at);
                EXPECT_EQ(to, 0U) << "byte " << at << " written twice";
                to = static_cast<std::uint32_t>(1 + r.src_offset + row * r.src_pitch + i);
            }
    return memory;
}

bool is_within(Bytes offset, Bytes bytes, Bytes piece) {
    return offset / piece == (offset + bytes - 1) / piece;
}

void expect_allowed(const CutRules& rules, const Request& r) {
    EXPECT_GT(r.bytes(), 0U);
    EXPECT_LE(r.pieces(), rules.sge);
    const Bytes most = r.is_packed || r.is_parcel ? std::max(rules.slot, rules.chunk) : rules.chunk;
    EXPECT_LE(r.bytes(), most);
    if (r.is_packed || r.is_parcel) {
        EXPECT_LE(r.bytes(), rules.slot);
    }
    if (r.is_parcel) {
        EXPECT_TRUE(rules.unpacks(r.row_bytes));
    } else {
        EXPECT_TRUE(is_within(r.dst_offset, r.bytes(), rules.dst_piece[r.destination]));
    }
    if (r.is_packed) return;  // leaves from staging
    if (r.pieces() == 1) {
        EXPECT_TRUE(is_within(r.src_offset, r.bytes(), rules.src_piece));
    } else {
        for (std::uint64_t row = 0; row < r.rows; ++row)
            EXPECT_TRUE(is_within(r.src_offset + row * r.src_pitch, r.row_bytes, rules.src_piece));
    }
}

TEST(CutCopies, put_every_byte_in_its_place_by_the_rules) {
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
        SCOPED_TRACE(seed);
        const Case c = make_case(seed);
        const auto requests = cut_copies(c.copies, c.rules);
        for (const Request& request : requests) expect_allowed(c.rules, request);
        ASSERT_EQ(by_requests(c, requests), by_copies(c));
        if (HasFailure()) return;
    }
}

TEST(CutCopies, leave_a_long_run_in_chunks) {
    const Copy copy{.rows = 1, .row_bytes = 2500};
    CutRules rules{.chunk = 1000, .dst_piece = {~Bytes{0}}};
    const auto requests = cut_copies(std::span(&copy, 1), rules);
    ASSERT_EQ(requests.size(), 3U);
    EXPECT_EQ(requests[2].bytes(), 500U);
    EXPECT_EQ(requests[2].dst_offset, 2000U);
}

Request of(std::uint32_t destination, Bytes bytes) {
    return {.destination = destination, .rows = 1, .row_bytes = bytes};
}

TEST(DealRequests, keep_loads_in_proportion_to_rates) {
    const std::vector<std::vector<double>> rates = {{100, 300}, {0, 0, 0}};
    std::vector<Request> requests;
    for (int i = 0; i < 400; ++i) requests.push_back(of(0, 1000));
    for (int i = 0; i < 300; ++i) requests.push_back(of(1, 1000));
    Bytes load[2][3] = {};
    const auto dealt = deal_requests(requests, rates);
    for (std::size_t i = 0; i < requests.size(); ++i)
        load[requests[i].destination][dealt[i]] += requests[i].bytes();
    EXPECT_EQ(load[0][0], 100'000U);
    EXPECT_EQ(load[0][1], 300'000U);
    for (const Bytes bytes : load[1]) EXPECT_EQ(bytes, 100'000U);
}

}  // namespace
}  // namespace weightlift::transport::verbs
