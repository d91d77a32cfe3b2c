// What is chosen from what was measured or read: tables.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "registered.hpp"
#include "rows.hpp"
#include "visibility.hpp"

namespace weightlift::transport::verbs {
namespace {

using memory::MemoryKind;
using memory::RemoteWrites;

TEST(ChooseRows, stage_where_a_copy_and_a_long_write_are_faster) {
    struct Row {
        const char* name;
        RowRates rates;
        bool packs, unpacks;
    };
    const Row rows[] = {
        {"short rows on a NIC", {50e9, 20e9, 3e9, 10e9}, false, true},
        {"very short rows", {50e9, 2e9, 0.5e9, 6e9}, true, true},
        {"long rows", {50e9, 49e9, 48e9, 12e9}, false, false},
        {"a software device: the copy costs nearly nothing", {70e6, 60e6, 10e6, 2e9}, true, true},
        {"nothing was measured", {}, false, false},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        const RowRule::Choice choice = choose_rows(row.rates);
        EXPECT_EQ(choice.packs, row.packs);
        EXPECT_EQ(choice.unpacks, row.unpacks);
    }
}

TEST(RowRule, takes_the_power_of_two_below_a_row) {
    RowRule rule;
    rule.by_size[512] = {.packs = true, .unpacks = false};
    EXPECT_TRUE(rule.choose(512).packs);
    EXPECT_TRUE(rule.choose(1023).packs);
    EXPECT_FALSE(rule.choose(1024).packs);
    EXPECT_FALSE(rule.choose(511).packs);
}

TEST(FixedRule, does_what_was_asked) {
    struct Row {
        Rows rows;
        bool packs, unpacks;
    };
    for (const Row& row : {Row{Rows::Direct, false, false}, Row{Rows::Gather, false, false},
                           Row{Rows::Pack, true, false}, Row{Rows::Unpack, true, true}}) {
        EXPECT_EQ(fixed_rule(row.rows).choose(100).packs, row.packs);
        EXPECT_EQ(fixed_rule(row.rows).choose(100).unpacks, row.unpacks);
    }
}

TEST(MethodsFor, never_take_gpu_memory_for_host_memory) {
    using M = std::vector<Method>;
    EXPECT_EQ(methods_for(MemoryKind::Host, Registration::Auto, false), M{Method::Host});
    EXPECT_EQ(methods_for(MemoryKind::Host, Registration::DmaBuf, true), M{Method::Host});
    EXPECT_EQ(methods_for(MemoryKind::Cuda, Registration::Auto, false), M{Method::DmaBuf});
    EXPECT_EQ(methods_for(MemoryKind::Cuda, Registration::Auto, true),
              (M{Method::DmaBuf, Method::PeerMem}));
    EXPECT_EQ(methods_for(MemoryKind::Cuda, Registration::DmaBuf, true), M{Method::DmaBuf});
    EXPECT_EQ(methods_for(MemoryKind::Cuda, Registration::PeerMem, true), M{Method::PeerMem});
    EXPECT_THROW((void)methods_for(MemoryKind::Cuda, Registration::PeerMem, false), ConfigError);
}

TEST(HasPeermem, sees_the_module) {
    const auto root = std::filesystem::path(testing::TempDir()) / "peermem";
    std::filesystem::remove_all(root);
    EXPECT_FALSE(has_peermem(root.string()));
    std::filesystem::create_directories(root / "sys/module/nvidia_peermem");
    EXPECT_TRUE(has_peermem(root.string()));
}

TEST(VisibilityFor, reads_back_where_a_flush_would_see_one_way_only) {
    struct Row {
        const char* name;
        RemoteWrites writes;
        Visibility expected;
    };
    const Row rows[] = {
        {"host memory", {}, Visibility::Nothing},
        {"writes ordered for the owner", {true, true, false}, Visibility::Nothing},
        {"not ordered, can flush", {false, true, false}, Visibility::Flush},
        {"not ordered, cannot flush", {false, false, false}, Visibility::LoopbackRead},
        {"two ways, even if ordered on each", {true, true, true}, Visibility::LoopbackRead},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        EXPECT_EQ(visibility_for(row.writes), row.expected);
    }
}

TEST(PieceFor, is_made_of_whole_units_within_extents) {
    constexpr Bytes kPage = 4096;
    EXPECT_EQ(piece_for(10'000, kPage, 1 << 20, 1 << 20), 2 * kPage);
    EXPECT_EQ(piece_for(100, kPage, 1 << 20, 1 << 20), kPage);
    EXPECT_EQ(piece_for(~Bytes{0}, kPage, 2 * MiB, 10 * MiB), 2 * MiB);
    EXPECT_EQ(piece_for(MiB, kPage, 2 * MiB, 10 * MiB), MiB);
    // Three parts of an extent of two would not be whole pages: four are.
    EXPECT_EQ(piece_for(700 * KiB, kPage, 2 * MiB, 10 * MiB), 512 * KiB);
    for (Bytes most = 1; most < 5 * MiB; most += 77'777) {
        const Bytes piece = piece_for(most, kPage, 2 * MiB, 10 * MiB);
        EXPECT_EQ(piece % kPage, 0U);
        EXPECT_EQ(2 * MiB % piece, 0U) << most;
        EXPECT_LE(piece, std::max(most, kPage));
    }
}

}  // namespace
}  // namespace weightlift::transport::verbs
