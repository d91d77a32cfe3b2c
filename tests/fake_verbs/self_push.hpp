// A rank that pushes from one half of its memory into the other, over fake devices.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/mpi/communicator.hpp"
#include "weightlift/transport/registry.hpp"

#include "fake_verbs.hpp"

namespace weightlift::transport {

/// Most calls of test() that a push over the fake network takes.
inline constexpr int kPatience = 2'000'000;

struct Conditions {
    VerbsOptions verbs;
    Bytes window = 0, max_message = 0;
};

class SelfPush {
public:
    SelfPush(Bytes bytes, std::vector<Copy> copies, const Conditions& conditions)
        : SelfPush(memory::make_host_arena(bytes), nullptr, std::move(copies), conditions) {}

    /// `content` is where this processor finds the arena's bytes; null: at data().
    SelfPush(std::unique_ptr<memory::Arena> arena, std::byte* content, std::vector<Copy> copies,
             const Conditions& conditions)
        : copies_(std::move(copies)),
          window_(conditions.window),
          world_(mpi::Communicator::world()),
          arena_(std::move(arena)),
          content_(content != nullptr ? content : arena_->data()),
          transport_(make_transport(
              "verbs", Context{.world = &world_,
                               .watchdog = &watchdog_,
                               .timeout = std::chrono::seconds(20),
                               .label = [](int r) { return "rank " + std::to_string(r); },
                               .max_message = conditions.max_message,
                               .verbs = conditions.verbs})),
          key_(transport_->register_memory(*arena_)) {
        connect();
    }

    void connect() {
        const Link self{0, bytes()};
        transport_->connect(
            {.destinations = {self}, .sources = {self}, .engine_groups = {{world_.rank()}}});
    }

    [[nodiscard]] std::unique_ptr<Push> prepare(const std::vector<Segment>& segments = {}) {
        BoundPlan plan;
        plan.destinations = {{0, arena_->bytes(), key_}};
        plan.copies = copies_;
        plan.segments = segments;
        plan.sources = {0};
        plan.signals = {static_cast<std::uint32_t>(segments.size())};
        plan.window = window_;
        return transport_->prepare(std::move(plan));
    }

    [[nodiscard]] Transport& transport() { return *transport_; }
    [[nodiscard]] Bytes bytes() const {
        Bytes sum = 0;
        for (const Copy& copy : copies_) sum += copy.bytes();
        return sum;
    }

    /// Values of `epoch` everywhere; what must be there after its push, copy by copy, is kept.
    void fill(std::uint64_t epoch) {
        std::mt19937_64 values(epoch);
        for (Bytes i = 0; i + 8 <= arena_->bytes(); i += 8) {
            const std::uint64_t value = values();
            std::memcpy(content_ + i, &value, 8);
        }
        filled_.assign(content_, content_ + arena_->bytes());
        expected_ = filled_;
        for (const Copy& copy : copies_)
            for (std::uint64_t row = 0; row < copy.rows; ++row)
                std::memcpy(expected_.data() + copy.dst_offset + row * copy.dst_pitch,
                            expected_.data() + copy.src_offset + row * copy.src_pitch,
                            copy.row_bytes);
    }

    /// False where the push is still under way after that many calls.
    [[nodiscard]] static bool is_done(Push& push, int patience = kPatience) {
        while (patience-- > 0)
            if (push.test()) return true;
        return false;
    }

    [[nodiscard]] bool has_arrived() const {
        return std::equal(expected_.begin(), expected_.end(), content_);
    }
    void expect_arrived() const { expect(expected_); }
    /// Since fill().
    void expect_untouched() const { expect(filled_); }

    void push_and_check(Push& push, std::uint64_t epoch) {
        const Bytes before = push.completed_bytes();
        fill(epoch);
        push.start(epoch, epoch);
        ASSERT_TRUE(is_done(push)) << "still under way";
        expect_arrived();
        EXPECT_EQ(push.completed_bytes() - before, bytes());
        EXPECT_TRUE(push.pending().empty());
    }

private:
    void expect(const std::vector<std::byte>& bytes) const {
        const auto [wrong, right] = std::mismatch(bytes.begin(), bytes.end(), content_);
        EXPECT_EQ(wrong - bytes.begin(), static_cast<std::ptrdiff_t>(bytes.size()))
            << "first wrong byte";
    }

    std::vector<Copy> copies_;
    Bytes window_;
    mpi::Communicator world_;
    mpi::Watchdog watchdog_;
    std::unique_ptr<memory::Arena> arena_;
    std::byte* content_;
    std::unique_ptr<Transport> transport_;
    RegionKey key_;
    std::vector<std::byte> filled_, expected_;
};

/// Copies from the lower half of an arena into the upper half, at random but disjoint places.
class RandomCopies {
public:
    RandomCopies(std::mt19937_64& random, Bytes half) : random_(random), half_(half) {}

    /// `count` copies at most, of rows of at most `row_bytes`; fewer where the upper half is full.
    std::vector<Copy> make(std::size_t count, std::uint64_t rows, Bytes row_bytes,
                           bool is_strided_here, bool is_strided_there) {
        std::vector<Copy> copies;
        Bytes at = half_ + draw(64);
        while (copies.size() < count) {
            Copy copy{.rows = 1 + draw(rows), .row_bytes = 1 + draw(row_bytes)};
            const auto pitch = [&](bool is_strided) {
                return copy.row_bytes + (is_strided ? 1 + draw(copy.row_bytes + 64) : 0);
            };
            copy.src_pitch = pitch(is_strided_here);
            copy.dst_pitch = pitch(is_strided_there);
            const Bytes here = (copy.rows - 1) * copy.src_pitch + copy.row_bytes;
            const Bytes there = (copy.rows - 1) * copy.dst_pitch + copy.row_bytes;
            if (here > half_ || at + there > 2 * half_) break;
            copy.src_offset = draw(half_ - here + 1);
            copy.dst_offset = at;
            at += there + draw(2) * draw(100);
            copies.push_back(copy);
        }
        return copies;
    }

    [[nodiscard]] Bytes draw(Bytes below) { return below == 0 ? 0 : random_() % below; }

private:
    std::mt19937_64& random_;
    Bytes half_;
};

/// Two devices with an address in one subnet each.
inline fake::Scenario two_rails(std::uint64_t seed) {
    return {.devices = {fake::roce_device("fake0", 1), fake::roce_device("fake1", 2)},
            .seed = seed};
}

/// Nothing of libibverbs is left, and nothing was done that would hang.
inline void expect_no_leak() {
    EXPECT_EQ(fake::objects(), fake::Objects{});
    EXPECT_TRUE(fake::misuses().empty()) << fake::misuses().front();
}

}  // namespace weightlift::transport
