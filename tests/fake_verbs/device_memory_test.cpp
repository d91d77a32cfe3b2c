// GPU memory: how NICs are given it, who may touch it, and when what has arrived is visible there.
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>

#include "device_arena.hpp"
#include "self_push.hpp"

namespace weightlift::transport {
namespace {

constexpr std::uint64_t kSeeds = 80;
constexpr memory::RemoteWrites kOrdered{};
constexpr memory::RemoteWrites kFlushed{.are_ordered = false, .can_flush = true};
constexpr memory::RemoteWrites kTwoPaths{
    .are_ordered = false, .can_flush = true, .two_paths = true};
constexpr memory::RemoteWrites kNoFlush{.are_ordered = false};

template <class T>
T one_of(std::mt19937_64& random, std::initializer_list<T> values) {
    return *std::next(values.begin(), static_cast<std::ptrdiff_t>(random() % values.size()));
}

struct Case {
    fake::Scenario scenario;
    Conditions conditions;
    DeviceMemory memory;
    std::vector<Copy> copies;
};

/// Some devices, all of them used, and rows of all shapes, some short enough to be sent inline.
Case random_case(std::uint64_t seed, memory::RemoteWrites writes) {
    std::mt19937_64 random(seed);
    Case it;
    VerbsOptions& verbs = it.conditions.verbs;
    const std::size_t devices = 1 + random() % 3;
    for (std::size_t i = 0; i < devices; ++i) {
        const std::string name = "fake" + std::to_string(i);
        it.scenario.devices.push_back(fake::roce_device(name, static_cast<std::uint8_t>(i + 1)));
        it.scenario.devices[i].max_mr_size = one_of<Bytes>(random, {8192, 65636, 1ULL << 40});
        verbs.nics.push_back(name);
    }
    it.scenario.seed = seed;
    it.scenario.placement =
        one_of(random, {fake::Placement::AtExecution, fake::Placement::AtReceivePoll,
                        fake::Placement::AfterAcknowledgement});
    it.scenario.most_steps = one_of(random, {1U, 16U});
    it.scenario.refuses_posts = random() % 2 == 0;
    verbs.qps = one_of(random, {1, 2});
    verbs.chunk = one_of<Bytes>(random, {0, 1000});
    verbs.rows = one_of(random, {Rows::Auto, Rows::Direct, Rows::Gather, Rows::Pack, Rows::Unpack});
    verbs.region_bytes = one_of<Bytes>(random, {0, 12288});
    const Bytes half = one_of<Bytes>(random, {65536, 100'001});
    it.memory = {.bytes = 2 * half,
                 .extent = one_of<Bytes>(random, {0, 4096, 8192, 20480, 65536}),
                 .writes = writes};
    RandomCopies copies(random, half);
    it.copies = copies.make(15, 30, one_of<Bytes>(random, {3, 60, 600}), random() % 2 == 0,
                            random() % 2 == 0);
    return it;
}

/// One long copy through both of two devices, in many pieces.
Case long_copy(memory::RemoteWrites writes) {
    return {.scenario = two_rails(1),
            .conditions = {.verbs = {.nics = {"fake0", "fake1"}, .chunk = 4096}},
            .memory = {.bytes = 131072, .extent = 8192, .writes = writes},
            .copies = {{.src_pitch = 65536,
                        .dst_offset = 65536,
                        .dst_pitch = 65536,
                        .rows = 1,
                        .row_bytes = 65536}}};
}

class DevicePush {
public:
    explicit DevicePush(const Case& it)
        : DevicePush(it, std::make_unique<DeviceArena>(it.memory)) {}

    DeviceArena& arena;
    SelfPush self;

private:
    DevicePush(const Case& it, std::unique_ptr<DeviceArena> memory)
        : arena(*memory), self(std::move(memory), arena.content(), it.copies, it.conditions) {}
};

/// `check(it, rig)` for each seed.
template <class Check>
void for_seeds(memory::RemoteWrites writes, Check&& check) {
    for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Case it = random_case(seed, writes);
        fake::begin(it.scenario);
        {
            DevicePush rig(it);
            check(it, rig);
            EXPECT_TRUE(rig.arena.is_decoy_untouched()) << "this processor has written to it";
            EXPECT_EQ(rig.arena.open_dma_bufs(), 0);
        }
        expect_no_leak();
    }
}

std::uint64_t sum_over(const Case& it, std::uint64_t (*value)(const fake::Counters&)) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < it.scenario.devices.size(); ++i) sum += value(fake::counters(i));
    return sum;
}
std::uint64_t inlined(const fake::Counters& counters) { return counters.inlined; }
std::uint64_t parcel_bytes(const fake::Counters& counters) {
    const auto at = counters.bytes.find(IBV_WR_RDMA_WRITE_WITH_IMM);
    return at == counters.bytes.end() ? 0 : at->second;
}
std::uint64_t written(const fake::Counters& counters) { return counters.placed_bytes; }
std::uint64_t reads(const fake::Counters& counters) {
    const auto at = counters.executed.find(IBV_WR_RDMA_READ);
    return at == counters.executed.end() ? 0 : at->second;
}

bool is_peermem_loaded() {
    return std::filesystem::exists("/sys/module/nvidia_peermem") ||
           std::filesystem::exists("/sys/module/nv_peer_mem");
}

TEST(DeviceMemory, is_registered_by_dma_buf_alone_and_in_pieces_of_extents) {
    for_seeds(kOrdered, [](const Case& it, DevicePush& rig) {
        const auto push = rig.self.prepare();
        rig.self.push_and_check(*push, 1);
        EXPECT_EQ(rig.self.transport().attachment().registration, "dmabuf");
        const auto base = reinterpret_cast<std::uint64_t>(rig.arena.data());
        std::map<std::string, Bytes> end;  // of what is registered, by device
        std::size_t others = 0;
        for (const fake::Registration& each : fake::registrations()) {
            if (!each.is_dma_buf) {
                EXPECT_TRUE(each.address + each.bytes <= base ||
                            each.address >= base + rig.arena.bytes());
                ++others;
                continue;
            }
            const Bytes offset = each.address - base;
            EXPECT_EQ(offset, end[each.device]) << "neither gap nor overlap";
            EXPECT_EQ(offset / rig.arena.extent(), (offset + each.bytes - 1) / rig.arena.extent());
            end[each.device] += each.bytes;
        }
        EXPECT_EQ(end.size(), it.scenario.devices.size());
        for (const auto& [device, bytes] : end) EXPECT_EQ(bytes, rig.arena.bytes()) << device;
        EXPECT_EQ(others, it.scenario.devices.size()) << "scratch for trial writes, no staging";
    });
}

TEST(DeviceMemory, is_never_registered_as_host_memory) {
    if (is_peermem_loaded()) GTEST_SKIP() << "nvidia_peermem would make it right";
    struct Row {
        const char* name;
        bool first_can, second_can, memory_can;
        int fault;  ///< of the sixth piece
        const char* device;
        int error;
    };
    const Row rows[] = {{"the first device cannot", false, true, true, 0, "fake0:1", EOPNOTSUPP},
                        {"the second cannot", true, false, true, 0, "fake1:1", EOPNOTSUPP},
                        {"its driver cannot", true, true, false, 0, "fake0:1", EOPNOTSUPP},
                        {"a piece is refused", true, true, true, EIO, "fake0:1", EIO}};
    for (const Registration asked : {Registration::Auto, Registration::DmaBuf})
        for (const Row& row : rows) {
            SCOPED_TRACE(row.name);
            Case it = long_copy(kOrdered);
            it.conditions.verbs.registration = asked;
            it.scenario.devices[0].has_dma_buf = row.first_can;
            it.scenario.devices[1].has_dma_buf = row.second_can;
            it.memory.has_dma_buf = row.memory_can;
            fake::begin(it.scenario);
            if (row.fault != 0) fake::fail_registration(5, row.fault);
            try {
                const DevicePush rig(it);
                ADD_FAILURE() << "not refused";
            } catch (const TransportError& error) {
                const std::string what = error.what();
                const std::string words = std::string("of GPU memory with ") + row.device +
                                          " (dmabuf: " + std::strerror(row.error) + ")";
                EXPECT_NE(what.find(words), std::string::npos) << words << ": " << what;
            }
            for (const fake::Registration& each : fake::registrations())
                EXPECT_TRUE(each.is_dma_buf) << each.bytes << " bytes with " << each.device;
            expect_no_leak();
        }
}

TEST(DeviceMemory, needs_a_kernel_module_for_peermem) {
    if (is_peermem_loaded()) GTEST_SKIP() << "it is here";
    Case it = long_copy(kOrdered);
    it.conditions.verbs.registration = Registration::PeerMem;
    fake::begin(it.scenario);
    try {
        const DevicePush rig(it);
        ADD_FAILURE() << "not refused";
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find("nvidia_peermem"), std::string::npos)
            << error.what();
    }
    EXPECT_TRUE(fake::registrations().empty());
    expect_no_leak();
}

TEST(DeviceMemory, is_touched_by_devices_only) {
    for_seeds(kOrdered, [](const Case& it, DevicePush& rig) {
        const auto push = rig.self.prepare();
        rig.self.push_and_check(*push, 1);
        rig.self.push_and_check(*push, 2);
        EXPECT_EQ(sum_over(it, inlined), 0U);
        EXPECT_EQ(sum_over(it, parcel_bytes), 0U);
        EXPECT_EQ(sum_over(it, written), 2 * rig.self.bytes()) << "no trial writes";
    });
}

// Without it the test above might pass because nothing is ever inlined or sent in parcels.
TEST(DeviceMemory, differs_from_host_memory) {
    std::uint64_t all_inlined = 0, all_parcel_bytes = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const Case it = random_case(seed, kOrdered);
        fake::begin(it.scenario);
        {
            SelfPush self(it.memory.bytes, it.copies, it.conditions);
            const auto push = self.prepare();
            self.push_and_check(*push, 1);
            all_inlined += sum_over(it, inlined);
            all_parcel_bytes += sum_over(it, parcel_bytes);
        }
        expect_no_leak();
    }
    EXPECT_GT(all_inlined, 0U);
    EXPECT_GT(all_parcel_bytes, 0U);
}

TEST(Visibility, needs_nothing_where_writes_are_ordered) {
    for_seeds(kOrdered, [](const Case& it, DevicePush& rig) {
        EXPECT_EQ(rig.self.transport().attachment().visibility, "completion");
        const auto push = rig.self.prepare();
        rig.self.push_and_check(*push, 1);
        EXPECT_FALSE(push->visibility_time());
        EXPECT_EQ(rig.arena.flushes, 0);
        EXPECT_EQ(sum_over(it, reads), 0U);
    });
}

TEST(Visibility, takes_one_flush_after_the_last_arrival) {
    for_seeds(kFlushed, [](const Case& it, DevicePush& rig) {
        EXPECT_EQ(rig.self.transport().attachment().visibility, "flush");
        const auto push = rig.self.prepare();
        bool is_done = false;
        rig.arena.on_flush = [&] {
            EXPECT_FALSE(is_done);
            EXPECT_TRUE(push->pending().empty());
            rig.self.expect_arrived();
        };
        for (int epoch = 1; epoch <= 3; ++epoch) {
            rig.self.fill(static_cast<std::uint64_t>(epoch));
            is_done = false;
            push->start(static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(epoch));
            EXPECT_FALSE(push->visibility_time());
            ASSERT_TRUE(SelfPush::is_done(*push));
            is_done = true;
            EXPECT_EQ(rig.arena.flushes, epoch);
            EXPECT_TRUE(push->visibility_time());
            EXPECT_TRUE(push->test());
            EXPECT_EQ(rig.arena.flushes, epoch) << "again after the end";
        }
        EXPECT_EQ(sum_over(it, reads), 0U);
    });
}

TEST(Visibility, takes_a_read_through_each_device_after_the_last_arrival) {
    for (const memory::RemoteWrites& writes : {kTwoPaths, kNoFlush})
        for_seeds(writes, [](const Case& it, DevicePush& rig) {
            EXPECT_EQ(rig.self.transport().attachment().visibility, "loopback read");
            const auto push = rig.self.prepare();
            const std::size_t devices = it.scenario.devices.size();
            for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
                rig.self.fill(epoch);
                push->start(epoch, epoch);
                int patience = kPatience;
                while (!push->pending().empty() && --patience > 0) ASSERT_FALSE(push->test());
                ASSERT_TRUE(push->pending().empty()) << "still under way";
                // The reads are posted now; none has been executed before.
                rig.self.expect_arrived();
                EXPECT_EQ(sum_over(it, reads), (epoch - 1) * devices);
                fake::lose_packets(true);
                for (int i = 0; i < 4; ++i) EXPECT_FALSE(push->test());
                EXPECT_FALSE(push->visibility_time());
                fake::lose_packets(false);
                ASSERT_TRUE(SelfPush::is_done(*push));
                EXPECT_TRUE(push->visibility_time());
                for (std::size_t i = 0; i < devices; ++i)
                    EXPECT_EQ(reads(fake::counters(i)), epoch) << "device " << i;
            }
            EXPECT_EQ(rig.arena.flushes, 0);
        });
}

TEST(Visibility, names_the_device_whose_read_fails) {
    for (const ibv_wc_status status :
         {IBV_WC_REM_ACCESS_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_LOC_PROT_ERR})
        for (std::uint64_t seed = 1; seed <= 24; ++seed) {
            SCOPED_TRACE("seed " + std::to_string(seed));
            Case it = long_copy(kTwoPaths);
            it.scenario.seed = seed;
            fake::begin(it.scenario);
            {
                DevicePush rig(it);
                auto push = rig.self.prepare();
                rig.self.push_and_check(*push, 1);
                // Queue pairs with oneself come last, one for each device.
                const std::size_t device = seed % 2;
                const auto first = rig.self.transport().attachment().queue_pairs;
                fake::fail_work(
                    {.nth = 1, .status = status, .queue_pair = static_cast<int>(first + device)});
                push->start(2, 2);
                try {
                    EXPECT_FALSE(SelfPush::is_done(*push));
                    ADD_FAILURE() << "not noticed";
                } catch (const TransportError& error) {
                    const std::string what = error.what();
                    for (const std::string& word :
                         {"read on fake" + std::to_string(device) + ":1", std::string("epoch 2"),
                          std::string(ibv_wc_status_str(status))})
                        EXPECT_NE(what.find(word), std::string::npos) << word << ": " << what;
                }
                EXPECT_FALSE(push->visibility_time());
                push.reset();
                rig.self.connect();
                push = rig.self.prepare();
                rig.self.push_and_check(*push, 3);
            }
            expect_no_leak();
        }
}

TEST(Visibility, leaves_nothing_of_a_push_that_is_given_up_before_it) {
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Case it = long_copy(kTwoPaths);
        it.scenario.seed = seed;
        it.scenario.keeps_completions = true;
        fake::begin(it.scenario);
        {
            DevicePush rig(it);
            auto push = rig.self.prepare();
            push->start(1, 1);
            while (!push->pending().empty()) ASSERT_FALSE(push->test());
            fake::advance(seed % 4);
            push.reset();
            rig.self.connect();
            push = rig.self.prepare();
            rig.self.push_and_check(*push, 2);
        }
        expect_no_leak();
    }
}

}  // namespace
}  // namespace weightlift::transport
