// A rank that pushes to itself: all of the nccl transport's code that one GPU can run. Run by
// mpirun with one rank.
#include <random>
#include <thread>

#include "conformance/rig.hpp"

namespace weightlift::transport {
namespace {

/// Copies from the lower half of an arena to its upper half.
struct SelfPush {
    Bytes half = 0;
    std::vector<Copy> copies;
    Bytes slice = 0, max_message = 0;
    std::vector<Segment> segments{};
    std::uint32_t broadcast_from = 0;  ///< not 0: by the kernel for local copies

    [[nodiscard]] Bytes bytes() const {
        Bytes sum = 0;
        for (const Copy& copy : copies) sum += copy.bytes();
        return sum;
    }
};

/// Short and long ranges, short and long rows, with odd offsets and pitches among them.
SelfPush mixed(Bytes half, Bytes longest, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    SelfPush push{half, {}};
    Bytes at = half;
    for (;;) {
        Copy copy;
        copy.rows = random() % 2 == 0 ? 1 : 1 + random() % 300;
        const Bytes most = copy.rows == 1 ? longest : longest / 200 + 1;
        copy.row_bytes = 1 + random() % (random() % 4 == 0 ? most : most / 20 + 1);
        copy.src_pitch = copy.row_bytes + (random() % 2) * (random() % 300);
        copy.dst_pitch = copy.row_bytes + (random() % 2) * (random() % 300);
        const Bytes from = copy.rows * copy.src_pitch;
        if (at + copy.rows * copy.dst_pitch > 2 * half) return push;
        if (from >= half) continue;
        copy.src_offset = random() % (half - from);
        copy.dst_offset = at;
        at += copy.rows * copy.dst_pitch + random() % 40;
        push.copies.push_back(copy);
    }
}

class SelfRig {
public:
    explicit SelfRig(SelfPush what)
        : what_(std::move(what)),
          world_(mpi::Communicator::world()),
          arena_(make_tested_arena(2 * what_.half, 0)),
          transport_(
              make_transport("nccl", {.world = &world_,
                                      .watchdog = &watchdog_,
                                      .timeout = std::chrono::seconds(60),
                                      .label = [](int r) { return "rank " + std::to_string(r); },
                                      .slice = what_.slice,
                                      .max_message = what_.max_message})),
          key_(transport_->register_memory(*arena_)) {
        connect();
    }

    void connect() { transport_->connect({{{0, what_.bytes()}}, {{0, what_.bytes()}}, {{0}}}); }
    [[nodiscard]] std::unique_ptr<Push> prepare() {
        return prepare_for(static_cast<std::uint32_t>(what_.segments.size()));
    }
    [[nodiscard]] std::unique_ptr<Push> prepare_for(std::uint32_t signals) {
        return transport_->prepare({{{0, 2 * what_.half, key_}},
                                    what_.copies,
                                    what_.segments,
                                    {0},
                                    {signals},
                                    what_.broadcast_from});
    }
    [[nodiscard]] Bytes bytes() const { return what_.bytes(); }

    void push_and_check(Push& push, std::uint64_t epoch) {
        std::vector<std::byte> bytes(2 * what_.half);
        for (Bytes i = 0; i < bytes.size(); ++i) bytes[i] = pattern(0, epoch, i);
        upload(*arena_, bytes);
        push.start(epoch, epoch);
        for (std::size_t i = 0; i < what_.segments.size(); ++i) allow_next(push, i);
        Rig::finish(push);
        for (const Copy& copy : what_.copies)
            for (std::uint64_t row = 0; row < copy.rows; ++row)
                std::copy_n(bytes.begin() + signed_(copy.src_offset + row * copy.src_pitch),
                            copy.row_bytes,
                            bytes.begin() + signed_(copy.dst_offset + row * copy.dst_pitch));
        const std::vector<std::byte> actual = download(*arena_);
        const auto wrong = std::mismatch(actual.begin(), actual.end(), bytes.begin()).first;
        EXPECT_EQ(wrong - actual.begin(), signed_(actual.size()))
            << "first wrong byte in epoch " << epoch;
    }

private:
    /// All segments of a round, and then until they have come.
    void allow_next(Push& push, std::size_t i) {
        const auto& segments = what_.segments;
        if (i + 1 < segments.size() && segments[i + 1].round == segments[i].round) return;
        push.allow(i + 1);
        const auto deadline = soon();
        while (push.placed() <= i || push.signals_from(0) <= i) {
            ASSERT_FALSE(push.test() && i + 1 < segments.size()) << "after segment " << i;
            ASSERT_FALSE(deadline.passed()) << "in segment " << i;
        }
        EXPECT_EQ(push.placed(), i + 1);
        EXPECT_EQ(push.signals_from(0), i + 1);
    }
    static std::ptrdiff_t signed_(Bytes bytes) { return static_cast<std::ptrdiff_t>(bytes); }

    SelfPush what_;
    mpi::Communicator world_;
    mpi::Watchdog watchdog_;
    std::unique_ptr<memory::Arena> arena_;
    std::unique_ptr<Transport> transport_;
    RegionKey key_;
};

class NcclSelfPush : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(mpi::Communicator::world().size(), 1) << "run by one rank";
        // The test is of GPU memory, whatever else is tested in this run.
        ::setenv("WEIGHTLIFT_TEST_MEMORY", "cuda", 0);
        if (const auto why = cannot_test("nccl"); !why.empty()) GTEST_SKIP() << why;
    }
};

TEST_F(NcclSelfPush, carries_ranges_and_rows) {
    SelfRig rig(mixed(64 * MiB, 8 * MiB, 1));
    const auto push = rig.prepare();
    for (std::uint64_t epoch = 1; epoch <= 5; ++epoch) {
        rig.push_and_check(*push, epoch);
        EXPECT_EQ(push->completed_bytes(), epoch * rig.bytes());
        EXPECT_TRUE(push->pending().empty());
        EXPECT_TRUE(push->test()) << "done stays done";
    }
}

TEST_F(NcclSelfPush, carries_only_ranges) {
    const Bytes half = 96 * MiB;
    SelfRig rig({half, {{0, 0, half, half, half, 1, half}}});
    const auto push = rig.prepare();
    rig.push_and_check(*push, 1);
    EXPECT_EQ(push->completed_bytes(), half);
}

TEST_F(NcclSelfPush, carries_only_short_rows) {
    // More than one round packs.
    SelfRig rig({96 * MiB, {{0, 7, 400, 96 * MiB + 1, 300, 300000, 256}}});
    const auto push = rig.prepare();
    for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) rig.push_and_check(*push, epoch);
}

TEST_F(NcclSelfPush, carries_what_needs_many_rounds) {
    for (const Bytes limit : {Bytes{700}, Bytes{5000}}) {
        SelfPush what = mixed(200000, 20000, limit);
        what.slice = what.max_message = limit;
        SelfRig rig(what);
        const auto push = rig.prepare();
        for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) rig.push_and_check(*push, epoch);
    }
}

TEST_F(NcclSelfPush, carries_segments_as_they_are_allowed) {
    struct Case {
        Bytes limit = 0;
        std::uint32_t broadcast_from = 0;
    };
    for (const auto& [limit, broadcast_from] : {Case{}, Case{30000, 0}, Case{0, 1}}) {
        SelfPush what = mixed(4 * MiB, 2 * MiB, 11);
        what.slice = what.max_message = limit;
        what.broadcast_from = broadcast_from;
        // Of none to four copies each, one or two in a round, with rounds left out.
        std::mt19937_64 random(12);
        std::uint32_t round = 2;
        for (std::size_t end = 0; end < what.copies.size();
             round += static_cast<std::uint32_t>(random() % 3)) {
            end = std::min(what.copies.size(), end + random() % 5);
            what.segments.push_back({end, 0, round});
        }
        SelfRig rig(what);
        const auto push = rig.prepare();
        for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
            rig.push_and_check(*push, epoch);
            EXPECT_EQ(push->completed_bytes(), epoch * rig.bytes());
        }
    }
}

TEST_F(NcclSelfPush, refuses_another_number_of_segments_than_expected) {
    SelfPush what = mixed(MiB, MiB / 4, 13);
    what.segments = {{what.copies.size(), 0, 0}};
    SelfRig rig(what);
    EXPECT_THROW((void)rig.prepare_for(2), TransportError);
    EXPECT_THROW((void)rig.prepare_for(0), TransportError);
}

TEST_F(NcclSelfPush, carries_nothing_but_the_notice) {
    SelfRig rig({1000, {}});
    const auto push = rig.prepare();
    rig.push_and_check(*push, 1);
    EXPECT_EQ(push->completed_bytes(), 0U);
}

TEST_F(NcclSelfPush, may_go_through_one_prepared_push_or_another) {
    SelfRig rig(mixed(2 * MiB, MiB, 3));
    const auto one = rig.prepare();
    const auto two = rig.prepare();
    rig.push_and_check(*one, 1);
    rig.push_and_check(*two, 2);
    rig.push_and_check(*one, 3);
}

TEST_F(NcclSelfPush, refuses_an_epoch_that_was) {
    SelfRig rig(mixed(MiB, MiB / 4, 4));
    const auto push = rig.prepare();
    rig.push_and_check(*push, 2);
    EXPECT_THROW(push->start(2, 2), TransportError);
}

TEST_F(NcclSelfPush, can_be_given_up_and_connected_anew) {
    SelfRig rig(mixed(64 * MiB, 8 * MiB, 5));
    for (std::uint64_t epoch = 1; epoch <= 7; epoch += 2) {
        auto push = rig.prepare();
        push->start(epoch, epoch);
        // While NCCL makes its connections, and while bytes travel.
        std::this_thread::sleep_for(std::chrono::milliseconds(epoch / 2));
        push.reset();
        EXPECT_THROW((void)rig.prepare(), TransportError) << "before it is connected anew";
        rig.connect();
        const auto next = rig.prepare();
        rig.push_and_check(*next, epoch + 1);
    }
}

}  // namespace
}  // namespace weightlift::transport
