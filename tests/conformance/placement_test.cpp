// Every transport must place every byte of every shape of copy, and no other byte. Run by mpirun
// with 2 and 4 ranks; rank 0 writes to the last rank unless a case says more.
#include <functional>
#include <random>

#include "conformance/rig.hpp"

namespace weightlift::transport {
namespace {

constexpr Bytes kPage = 4096;

struct Case {
    std::string name;
    std::function<Scenario(int ranks)> scenario;
};

Copy contiguous(Bytes src, Bytes dst, Bytes bytes) { return {0, src, bytes, dst, bytes, 1, bytes}; }

Case one_copy(std::string name, Copy copy, Bytes slice = 0, Bytes max_message = 0) {
    return {std::move(name), [=](int ranks) {
                const Bytes end = std::max(copy.src_offset + copy.rows * copy.src_pitch,
                                           copy.dst_offset + copy.rows * copy.dst_pitch);
                return Scenario{end + 100, {{0, ranks - 1, copy}}, 0, slice, max_message};
            }};
}

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const Bytes n : {Bytes{1}, Bytes{7}, Bytes{4097}, kPage - 1, kPage, 10 * MiB + 3})
        all.push_back(one_copy("contiguous_" + std::to_string(n), contiguous(13, 40, n)));
    // Borders of one message and of one call of test().
    for (const Bytes limit : {Bytes{1000}, 4 * kPage})
        for (const Bytes n : {limit - 1, limit, limit + 1, 3 * limit + 1}) {
            const auto name = std::to_string(n) + "_at_limit_" + std::to_string(limit);
            all.push_back(one_copy("message_" + name, contiguous(64, 64, n), 0, limit));
            all.push_back(one_copy("slice_" + name, contiguous(64, 64, n), limit, 0));
        }
    struct Strided {
        const char* name;
        Copy copy;
    };
    const Strided strided[] = {
        {"strided_source", {0, 64, 1024, 128, 256, 999, 256}},
        {"strided_destination", {0, 64, 256, 128, 1024, 999, 256}},
        {"strided_both", {0, 64, 640, 128, 1024, 999, 256}},
        {"strided_odd", {0, 3, 1001, 17, 777, 301, 333}},
        {"strided_destination_pitch_unaligned", {0, 0, 512, 0, 520, 301, 512}},
        {"strided_long_rows", {0, 0, 30000, 16, 20016, 77, 20000}},
        {"rows_that_touch", {0, 32, 512, 16, 512, 300, 512}},
        {"one_byte_rows", {0, 0, 2, 1, 3, 1000, 1}},
        {"one_row_with_a_pitch", {0, 5, 9999, 6, 77, 1, 5000}},
    };
    for (const auto& [name, copy] : strided) {
        all.push_back(one_copy(name, copy));
        // Rows that are longer than a slice and a message, and slices that end inside a row.
        all.push_back(one_copy(std::string(name) + "_in_slices_of_700", copy, 700, 700));
        all.push_back(one_copy(std::string(name) + "_in_slices_of_5000", copy, 5000, 3000));
    }
    all.push_back({"nothing_but_a_notice", [](int ranks) {
                       return Scenario{100, {{0, ranks - 1, contiguous(0, 0, 0)}}};
                   }});
    all.push_back({"empty_arenas", [](int ranks) {
                       return Scenario{0, {{0, ranks - 1, contiguous(0, 0, 0)}}};
                   }});
    all.push_back({"empty_copies_between_others", [](int ranks) {
                       return Scenario{5000,
                                       {{0, ranks - 1, contiguous(0, 0, 0)},
                                        {0, ranks - 1, contiguous(10, 20, 300)},
                                        {0, ranks - 1, {0, 0, 8, 0, 8, 0, 8}},
                                        {0, ranks - 1, contiguous(400, 900, 5)}}};
                   }});
    all.push_back(
        {"many_tiny_copies", [](int ranks) {
             Scenario scenario{200000, {}, 4096};
             std::mt19937_64 random(7);
             for (Bytes dst = 0; dst + 40 < scenario.arena_bytes;) {
                 const Bytes n = 1 + random() % 40;
                 scenario.moves.push_back({0, ranks - 1, contiguous(random() % 199000, dst, n)});
                 dst += n + random() % 3;
             }
             return scenario;
         }});
    all.push_back(
        {"several_sources_into_one_destination", [](int ranks) {
             Scenario scenario{1 * MiB, {}, 20000, 10000, 7000};
             const auto part = scenario.arena_bytes / static_cast<Bytes>(ranks);
             for (int src = 0; src + 1 < ranks; ++src)
                 scenario.moves.push_back(
                     {src, ranks - 1, contiguous(99, static_cast<Bytes>(src) * part, part - 1)});
             return scenario;
         }});
    all.push_back({"one_source_into_several_destinations", [](int ranks) {
                       Scenario scenario{1 * MiB, {}, 20000, 10000, 7000};
                       // In turn, as the rotated order does.
                       for (Bytes chunk = 0; chunk < 30; ++chunk)
                           for (int dst = 1; dst < ranks; ++dst)
                               scenario.moves.push_back(
                                   {0, dst, {0, chunk * 30000, 400, chunk * 20000, 200, 60, 150}});
                       return scenario;
                   }});
    all.push_back({"half_the_ranks_to_the_other_half", [](int ranks) {
                       Scenario scenario{300000, {}};
                       const int half = ranks / 2;
                       for (int src = 0; src < half; ++src)
                           for (int dst = half; dst < ranks; ++dst)
                               scenario.moves.push_back(
                                   {src, dst,
                                    contiguous(static_cast<Bytes>(dst) * 1000,
                                               static_cast<Bytes>(src) * 100000, 99999)});
                       return scenario;
                   }});
    return all;
}

using Parameter = std::tuple<std::string_view, Case>;

std::string test_name(const testing::TestParamInfo<Parameter>& info) {
    return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
}

class Placement : public testing::TestWithParam<Parameter> {};

TEST_P(Placement, every_byte_and_no_other) {
    const auto& [transport, row] = GetParam();
    if (const auto why = cannot_test(transport); !why.empty()) GTEST_SKIP() << why;
    Rig rig(transport, row.scenario(mpi::Communicator::world().size()));
    const auto push = rig.transport().prepare(rig.plan());
    for (std::uint64_t epoch = 1; epoch <= 2; ++epoch) {
        rig.push_and_check(*push, epoch);
        EXPECT_EQ(push->completed_bytes(), epoch * rig.bytes_written());
        EXPECT_TRUE(push->pending().empty());
    }
}

INSTANTIATE_TEST_SUITE_P(Transports, Placement,
                         testing::Combine(testing::ValuesIn(transport_names().begin(),
                                                            transport_names().end()),
                                          testing::ValuesIn(cases())),
                         test_name);

}  // namespace
}  // namespace weightlift::transport
