// Offsets, sizes and pitches beyond 2^31 bytes. Two ranks of 2.2 GiB.
#include "conformance/rig.hpp"

namespace weightlift::transport {
namespace {

constexpr std::uint64_t kRows = 4506;
constexpr Bytes kRowBytes = 512 * KiB;  // 2.2 GiB in all
constexpr std::uint64_t kTensor = hash_name("large");

memory::Block block(std::uint64_t rows, Bytes pitch, Bytes row_bytes) {
    return {0, pitch, {{0, rows}, {0, row_bytes / 2}}, DType::BF16, kTensor};
}

class Large : public testing::TestWithParam<std::string_view> {};

TEST_P(Large, more_than_2_GiB_arrive) {
    if (const auto why = cannot_test(GetParam()); !why.empty()) GTEST_SKIP() << why;
    const Bytes bytes = kRows * kRowBytes;
    // The left half of all rows, then, in a second push, all bytes as one row.
    Scenario scenario{bytes, {{0, 1, {0, 0, kRowBytes, 0, kRowBytes, kRows, kRowBytes / 2}}}};
    Rig rig(GetParam(), scenario);
    const std::vector<memory::Block> left = {block(kRows, kRowBytes, kRowBytes / 2)};
    const std::vector<memory::Block> whole = {block(kRows, kRowBytes, kRowBytes)};
    if (rig.writes()) rig.arena().fill(whole, 1);
    rig.world().barrier(soon(), "filled");

    const auto halves = rig.transport().prepare(rig.plan());
    halves->start(1, 1);
    Rig::finish(*halves);
    rig.world().barrier(soon(), "halves");
    if (rig.is_written()) {
        EXPECT_FALSE(rig.arena().compare(left, 1));
        const std::vector<memory::ByteBlock> right = {
            {kRowBytes / 2, kRowBytes, kRows, kRowBytes / 2}};
        EXPECT_EQ(rig.arena().first_nonzero(right), std::nullopt);
    }

    rig.world().barrier(soon(), "halves checked");

    BoundPlan plan = rig.plan();
    for (Copy& copy : plan.copies) copy = {0, 0, bytes, 0, bytes, 1, bytes};
    const auto all = rig.transport().prepare(std::move(plan));
    all->start(1, 2);
    Rig::finish(*all);
    rig.world().barrier(soon(), "all");
    if (rig.is_written()) {
        EXPECT_FALSE(rig.arena().compare(whole, 1));
    }
    EXPECT_EQ(all->completed_bytes(), rig.writes() ? bytes : 0);
    rig.world().barrier(soon(), "checked");
}

INSTANTIATE_TEST_SUITE_P(Transports, Large,
                         testing::ValuesIn(transport_names().begin(), transport_names().end()),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace weightlift::transport
