// A ring of staging slots as both ends map it; both are of this process here.
#include "staged/staging.hpp"

#include <cstring>
#include <functional>

#include <gtest/gtest.h>

namespace weightlift::transport::staged {
namespace {

constexpr Bytes kSlot = 5000;
constexpr int kRank = 3;

/// A destination with two sources; the second one's ring is looked at.
class Rings : public testing::Test {
protected:
    [[nodiscard]] Ring own() const { return {staging_.data() + Ring::bytes(kSlot), kSlot}; }
    [[nodiscard]] RingPlace place() const {
        return {.owner = ProcessId::own(kRank),
                .file = staging_.file(),
                .offset = Ring::bytes(kSlot),
                .slot = kSlot};
    }
    [[nodiscard]] std::unique_ptr<PeerRing> map(const RingPlace& place) const {
        return std::make_unique<PeerRing>(place, kRank, "rank 3", *weights_, 0);
    }

    std::unique_ptr<memory::Arena> weights_ = memory::make_host_arena(100);
    Staging staging_{2 * Ring::bytes(kSlot), *weights_, 0};
};

TEST_F(Rings, are_seen_at_both_ends) {
    const auto peer = map(place());
    for (std::uint64_t message = 0; message < 2 * kInSlots; ++message) {
        std::memset(peer->ring().slot(message), static_cast<int>(message) + 1, kSlot);
        EXPECT_EQ(*own().slot(message), std::byte(message + 1));
        EXPECT_EQ(own().slot(message)[kSlot - 1], std::byte(message + 1));
    }
    EXPECT_EQ(own().filled(), Progress{}) << "slots overlap the lines";
    EXPECT_EQ(own().placed(), Progress{}) << "slots overlap the lines";
    EXPECT_EQ(*staging_.data(), std::byte{0}) << "the neighbour's ring was written";
}

TEST_F(Rings, say_how_far_each_end_is) {
    const auto peer = map(place());
    peer->ring().tell_filled({7, 12});
    own().tell_placed({7, 11});
    EXPECT_EQ(own().filled(), (Progress{7, 12}));
    EXPECT_EQ(peer->ring().placed(), (Progress{7, 11}));
    own().tell_placed(kRefusal);
    EXPECT_EQ(peer->ring().placed(), kRefusal);
}

TEST_F(Rings, outlive_their_owner_where_a_source_still_maps_them) {
    auto staging = std::make_unique<Staging>(Ring::bytes(kSlot), *weights_, 0);
    const auto peer = map({ProcessId::own(kRank), staging->file(), 0, kSlot});
    staging.reset();
    std::memset(peer->ring().slot(0), 1, kSlot);
    EXPECT_EQ(*peer->ring().slot(0), std::byte{1});
}

TEST_F(Rings, are_refused_where_they_cannot_be_mapped) {
    struct Row {
        const char* name;
        std::function<void(RingPlace&)> change;
        const char* why;
    };
    for (const Row& row : std::vector<Row>{
             {"another host", [](auto& p) { p.owner.boot_id[0] ^= 1; }, "another host"},
             {"another container", [](auto& p) { ++p.owner.pid_namespace; }, "PID namespace"},
             {"another rank", [](auto& p) { p.owner.rank = 4; }, "made by rank 4"},
             {"no such file", [](auto& p) { p.file.fd = 1000000; }, "cannot open the memory"},
             {"another file", [](auto& p) { ++p.file.inode; }, "is not the memory of rank 3"}}) {
        RingPlace changed = place();
        row.change(changed);
        try {
            static_cast<void>(map(changed));
            ADD_FAILURE() << row.name << " was not refused";
        } catch (const TransportError& error) {
            EXPECT_NE(std::string(error.what()).find(row.why), std::string::npos)
                << row.name << ": " << error.what();
        }
    }
}

}  // namespace
}  // namespace weightlift::transport::staged
