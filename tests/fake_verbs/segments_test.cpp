// Segments over fake devices: a rank relays through two slots of staging, which are used again and
// again, and looks at the bytes whenever a count grows.
#include <cstring>
#include <iterator>

#include "device_arena.hpp"
#include "self_push.hpp"

namespace weightlift::transport {
namespace {

constexpr Bytes kPart = 32768, kSlot = 2048;
constexpr Bytes kStaging = 2 * kPart, kArena = kStaging + 2 * kSlot;
constexpr std::uint32_t kChunks = kPart / kSlot;

template <class T>
T one_of(std::mt19937_64& random, std::initializer_list<T> values) {
    return *std::next(values.begin(), static_cast<std::ptrdiff_t>(random() % values.size()));
}

/// How chunks lie in the second part of the arena.
enum class Cut : std::uint8_t { AsIs, LeftThenRight, Swapped };

/// Chunks go from the first part of the arena to a slot, and from there to the second part, as they
/// are or by halves of rows of 32 bytes. A slot's next chunk waits until the former was cut out.
struct Relay {
    struct Wait {
        std::uint32_t arrived = 0;  ///< segments
        std::uint32_t placed = 0;
    };
    std::vector<Copy> copies;
    std::vector<Segment> segments;
    std::vector<Wait> waits;

    explicit Relay(std::uint64_t seed) {
        std::vector<std::uint32_t> sent, cut;  // places in the list, by chunk
        const auto send = [&](std::uint32_t c) {
            const Bytes slot = kStaging + c % 2 * kSlot;
            copies.push_back({0, c * kSlot, kSlot, slot, kSlot, 1, kSlot});
            sent.push_back(add({0, c < 2 ? 0 : cut[c - 2] + 1}));
        };
        send(0);
        send(1);
        for (std::uint32_t c = 0; c < kChunks; ++c) {
            const Bytes slot = kStaging + c % 2 * kSlot, to = kPart + c * kSlot;
            switch (static_cast<Cut>(seed % 3)) {
                case Cut::AsIs: copies.push_back({0, slot, kSlot, to, kSlot, 1, kSlot}); break;
                case Cut::LeftThenRight:
                    copies.push_back({0, slot, 32, to, 16, 64, 16});
                    copies.push_back({0, slot + 16, 32, to + kSlot / 2, 16, 64, 16});
                    break;
                case Cut::Swapped:
                    copies.push_back({0, slot, 32, to + 16, 32, 64, 16});
                    copies.push_back({0, slot + 16, 32, to, 32, 64, 16});
                    break;
            }
            cut.push_back(add({sent[c] + 1, 0}));
            if (c + 2 < kChunks) send(c + 2);
            if (c % 3 == 0) static_cast<void>(add({}));  // a signal alone
        }
    }

private:
    std::uint32_t add(const Wait& wait) {
        const auto index = static_cast<std::uint32_t>(segments.size());
        segments.push_back({copies.size(), 0, index});
        waits.push_back(wait);
        return index;
    }
};

class Driver {
public:
    Driver(const Relay& relay, Push& push, const std::byte* content)
        : relay_(relay), push_(push), content_(content) {}

    /// What happens between two looks; `on_count` when more segments have arrived.
    std::function<void()> between = [] {};
    std::function<void()> on_count = [] {};

    /// False where the push is still under way after that many looks.
    [[nodiscard]] bool run(std::uint64_t epoch, int patience = kPatience) {
        push_.start(epoch, epoch);
        EXPECT_EQ(push_.placed() + push_.signals_from(0), 0U);
        std::uint32_t arrived = 0;
        std::size_t placed = 0, allowed = 0;
        bool is_done = false;
        while (!is_done && patience-- > 0) {
            while (allowed < relay_.segments.size() && relay_.waits[allowed].arrived <= arrived &&
                   relay_.waits[allowed].placed <= placed)
                push_.allow(++allowed);
            is_done = push_.test();
            const std::uint32_t now = push_.signals_from(0);
            EXPECT_GE(now, arrived);
            EXPECT_LE(now, allowed);
            if (now > arrived) on_count();
            for (; arrived < now; ++arrived) check(arrived);
            EXPECT_GE(push_.placed(), placed);
            EXPECT_LE(push_.placed(), now) << "what is here was not seen to arrive";
            placed = push_.placed();
            between();
        }
        if (is_done) {
            EXPECT_EQ(arrived, relay_.segments.size());
            EXPECT_EQ(placed, relay_.segments.size());
        }
        return is_done;
    }

private:
    void check(std::uint32_t segment) const {
        const std::size_t begin = segment == 0 ? 0 : relay_.segments[segment - 1].end;
        for (std::size_t i = begin; i < relay_.segments[segment].end; ++i) {
            const Copy& copy = relay_.copies[i];
            for (std::uint64_t row = 0; row < copy.rows; ++row)
                ASSERT_EQ(
                    std::memcmp(content_ + copy.dst_offset + row * copy.dst_pitch,
                                content_ + copy.src_offset + row * copy.src_pitch, copy.row_bytes),
                    0)
                    << "segment " << segment << " was counted before it was there";
        }
    }

    const Relay& relay_;
    Push& push_;
    const std::byte* content_;
};

fake::Scenario random_scenario(std::uint64_t seed, Conditions& conditions) {
    std::mt19937_64 random(seed);
    fake::Scenario scenario{.devices = {}, .seed = seed};
    const auto devices = static_cast<std::uint8_t>(1 + random() % 3);
    for (std::uint8_t i = 0; i < devices; ++i) {
        const std::string name = "fake" + std::to_string(i);
        scenario.devices.push_back(fake::roce_device(name, static_cast<std::uint8_t>(i + 1)));
        scenario.devices.back().slots_by_sges = random() % 2 == 0;
        scenario.devices.back().max_mr_size = one_of<Bytes>(random, {8192, 1ULL << 40});
        scenario.devices.back().max_cqe = one_of(random, {300, 1 << 20});
        conditions.verbs.nics.push_back(name);
    }
    scenario.placement =
        one_of(random, {fake::Placement::AtExecution, fake::Placement::AtReceivePoll,
                        fake::Placement::AfterAcknowledgement});
    scenario.most_steps = one_of(random, {1U, 4U, 16U, 100U});
    scenario.refuses_posts = random() % 2 == 0;
    scenario.keeps_completions = random() % 2 == 0;
    conditions.verbs.qps = one_of(random, {0, 1, 2, 4});
    conditions.verbs.depth = one_of(random, {0, 4, 8, 32});
    conditions.verbs.chunk = one_of<Bytes>(random, {0, 100, 1000});
    conditions.verbs.rows =
        one_of(random, {Rows::Auto, Rows::Direct, Rows::Gather, Rows::Pack, Rows::Unpack});
    conditions.window = one_of<Bytes>(random, {0, 0, 500, 5000});
    conditions.max_message = one_of<Bytes>(random, {0, 0, 300});
    return scenario;
}

std::uint64_t sum_over(const fake::Scenario& scenario,
                       std::uint64_t (*value)(const fake::Counters&)) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < scenario.devices.size(); ++i) sum += value(fake::counters(i));
    return sum;
}
std::uint64_t missed_receives(const fake::Counters& counters) { return counters.not_ready; }
std::uint64_t parcel_bytes(const fake::Counters& counters) {
    const auto at = counters.bytes.find(IBV_WR_RDMA_WRITE_WITH_IMM);
    return at == counters.bytes.end() ? 0 : at->second;
}
std::uint64_t reads(const fake::Counters& counters) {
    const auto at = counters.executed.find(IBV_WR_RDMA_READ);
    return at == counters.executed.end() ? 0 : at->second;
}

TEST(SegmentsOverFake, are_relayed_whatever_the_devices) {
    for (std::uint64_t seed = 1; seed <= 250 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Conditions conditions;
        const fake::Scenario scenario = random_scenario(seed, conditions);
        const Relay relay(seed);
        fake::begin(scenario);
        {
            auto memory = memory::make_host_arena(kArena);
            std::byte* const content = memory->data();
            SelfPush rig(std::move(memory), content, relay.copies, conditions);
            std::uint64_t epoch = 0;
            for (int prepared = 0; prepared < 2; ++prepared) {
                const auto push = rig.prepare(relay.segments);
                Driver driver(relay, *push, content);
                for (int i = 0; i < 2; ++i) {
                    rig.fill(++epoch);
                    ASSERT_TRUE(driver.run(epoch)) << "still under way";
                    rig.expect_arrived();
                    EXPECT_TRUE(push->pending().empty());
                }
                EXPECT_EQ(push->completed_bytes(), 2 * rig.bytes());
            }
            EXPECT_EQ(sum_over(scenario, parcel_bytes), 0U) << "a row was unpacked";
            EXPECT_NE(rig.transport().attachment().rows.find("no row is unpacked"),
                      std::string::npos);
            EXPECT_EQ(sum_over(scenario, missed_receives), 0U) << "a receive was missing";
            // The same connections serve a push without segments.
            const auto plain = rig.prepare();
            plain->start(epoch + 1, epoch + 1);
            EXPECT_TRUE(SelfPush::is_done(*plain));
        }
        expect_no_leak();
    }
}

TEST(SegmentsOverFake, wait_for_nobody_but_lack_no_receive) {
    // Far more signals than receives, all allowed at once; the network goes on between two looks.
    for (std::uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const fake::Scenario scenario = two_rails(seed);
        fake::begin(scenario);
        {
            std::vector<Copy> copies;
            std::vector<Segment> segments;
            for (std::uint32_t i = 0; i < 300; ++i) {
                if (i % 4 > 0) copies.push_back({0, i * 24, 24, 8192 + i * 24, 24, 1, 24});
                segments.push_back({copies.size(), 0, i});
            }
            SelfPush rig(16384, copies, {.verbs = {.nics = {"fake0", "fake1"}, .qps = 2}});
            const auto push = rig.prepare(segments);
            for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
                rig.fill(epoch);
                push->start(epoch, epoch);
                EXPECT_FALSE(push->test()) << "nothing was allowed";
                push->allow(segments.size());
                int looks = 0;
                for (; !push->test() && looks < kPatience; ++looks) fake::advance(10'000);
                EXPECT_LT(looks, 300) << "several signals at a time";
                EXPECT_EQ(push->signals_from(0), segments.size());
                rig.expect_arrived();
            }
            EXPECT_EQ(sum_over(scenario, missed_receives), 0U) << "a receive was missing";
        }
        expect_no_leak();
    }
}

TEST(SegmentsOverFake, are_counted_when_the_gpu_can_see_them) {
    struct Row {
        const char* name;
        memory::RemoteWrites writes;
        bool flushes, reads;
    };
    const Row rows[] = {
        {"ordered", {}, false, false},
        {"flushed", {.are_ordered = false, .can_flush = true}, true, false},
        {"two paths", {.are_ordered = false, .can_flush = true, .two_paths = true}, false, true},
        {"no flush", {.are_ordered = false}, false, true}};
    for (const Row& row : rows)
        for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
            SCOPED_TRACE(row.name + std::string(", seed ") + std::to_string(seed));
            Conditions conditions;
            const fake::Scenario scenario = random_scenario(seed, conditions);
            const Relay relay(seed);
            fake::begin(scenario);
            {
                auto memory = std::make_unique<DeviceArena>(
                    DeviceMemory{.bytes = kArena, .writes = row.writes});
                DeviceArena& arena = *memory;
                SelfPush rig(std::move(memory), arena.content(), relay.copies, conditions);
                const auto push = rig.prepare(relay.segments);
                Driver driver(relay, *push, arena.content());
                int flushes = 0;
                std::uint64_t read = 0;
                driver.on_count = [&] {
                    if (row.flushes) {
                        EXPECT_GT(arena.flushes, flushes);
                    }
                    if (row.reads) {
                        EXPECT_GT(sum_over(scenario, reads), read);
                    }
                    flushes = arena.flushes;
                    read = sum_over(scenario, reads);
                };
                for (std::uint64_t epoch = 1; epoch <= 2; ++epoch) {
                    rig.fill(epoch);
                    ASSERT_TRUE(driver.run(epoch)) << "still under way";
                    rig.expect_arrived();
                    EXPECT_EQ(push->visibility_time().has_value(), row.flushes || row.reads);
                }
                EXPECT_TRUE(arena.is_decoy_untouched()) << "this processor has written to it";
            }
            expect_no_leak();
        }
}

/// What ends the push; empty where it is under way still after so many looks.
std::string failure_of(Driver& driver, std::uint64_t epoch) try {
    EXPECT_FALSE(driver.run(epoch, 20'000)) << "done in spite of it";
    return "";
} catch (const TransportError& error) {
    return error.what();
}

TEST(SegmentsOverFake, are_never_counted_twice_nor_passed_over) {
    using Kind = fake::ImmediateFault::Kind;
    struct Row {
        const char* name;
        fake::ImmediateFault fault;
        bool may_wait;  ///< for what never comes
    };
    const Row rows[] = {{"duplicate", {.kind = Kind::Duplicate}, false},
                        {"lost", {.kind = Kind::Drop}, true},
                        {"of another epoch", {.kind = Kind::Replace, .value = 0x40100000}, false},
                        {"of no epoch", {.kind = Kind::Replace, .value = 0x400fffff}, false},
                        {"an end", {.kind = Kind::Replace, .value = 2}, false}};
    for (const Row& row : rows)
        for (std::uint64_t seed = 1; seed <= 40; ++seed) {
            SCOPED_TRACE(row.name + std::string(", seed ") + std::to_string(seed));
            Conditions conditions;
            const fake::Scenario scenario = random_scenario(seed, conditions);
            const Relay relay(seed);
            fake::begin(scenario);
            {
                auto memory = memory::make_host_arena(kArena);
                std::byte* const content = memory->data();
                SelfPush rig(std::move(memory), content, relay.copies, conditions);
                auto push = rig.prepare(relay.segments);
                {
                    Driver driver(relay, *push, content);
                    rig.fill(1);
                    ASSERT_TRUE(driver.run(1));
                    rig.fill(2);
                    fake::ImmediateFault fault = row.fault;
                    fault.nth = fake::immediates() + seed;
                    fake::disturb_immediate(fault);
                    const std::string error = failure_of(driver, 2);
                    if (error.empty()) {
                        EXPECT_TRUE(row.may_wait);
                        EXPECT_EQ(push->pending(), std::vector{0});
                    } else {
                        EXPECT_NE(error.find("rank 0"), std::string::npos) << error;
                    }
                }
                push.reset();
                rig.connect();
                push = rig.prepare(relay.segments);
                Driver driver(relay, *push, content);
                rig.fill(3);
                EXPECT_TRUE(driver.run(3)) << "after a new connection";
                rig.expect_arrived();
            }
            expect_no_leak();
        }
}

TEST(SegmentsOverFake, of_another_number_than_expected_are_refused) {
    // The plan says 5 of itself, and 4 or 6 of what is to come.
    for (const std::uint32_t signals : {4U, 6U}) {
        fake::begin(two_rails(1));
        {
            mpi::Communicator world = mpi::Communicator::world();
            const auto memory = memory::make_host_arena(1000);
            const auto transport =
                make_transport("verbs", Context{.world = &world,
                                                .timeout = std::chrono::seconds(20),
                                                .label = [](int) { return "rank of the test"; },
                                                .verbs = {.nics = {"fake0"}}});
            const RegionKey key = transport->register_memory(*memory);
            transport->connect(
                {.destinations = {{0, 5}}, .sources = {{0, 5}}, .engine_groups = {}});
            BoundPlan plan;
            plan.destinations = {{0, 1000, key}};
            for (std::uint32_t i = 0; i < 5; ++i) plan.segments.push_back({0, 0, i});
            plan.sources = {0};
            plan.signals = {signals};
            const auto push = transport->prepare(plan);
            push->start(1, 1);
            push->allow(5);
            try {
                EXPECT_FALSE(SelfPush::is_done(*push, 20'000));
                ADD_FAILURE() << "not refused";
            } catch (const TransportError& error) {
                const std::string what = error.what();
                EXPECT_NE(what.find("rank of the test"), std::string::npos) << what;
                EXPECT_NE(what.find("of " + std::to_string(signals) + " segments"),
                          std::string::npos)
                    << what;
            }
        }
        expect_no_leak();
    }
}

}  // namespace
}  // namespace weightlift::transport
