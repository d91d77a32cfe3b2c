// Pushes over every kind of device and network that a seed brings: the right bytes, exactly.
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "self_push.hpp"

namespace weightlift::transport {
namespace {

struct Case {
    fake::Scenario scenario;
    Conditions conditions;
    std::vector<Copy> copies;
    Bytes half = 0;
    std::string text;
    /// What `max_message` and `window` can't cut where rows are packed.
    [[nodiscard]] Bytes longest_row() const {
        Bytes longest = 0;
        for (const Copy& copy : copies)
            if (copy.rows > 1) longest = std::max(longest, copy.row_bytes);
        return longest;
    }
};

template <class T>
T one_of(std::mt19937_64& random, std::initializer_list<T> values) {
    return *std::next(values.begin(), static_cast<std::ptrdiff_t>(random() % values.size()));
}

fake::Device random_device(std::mt19937_64& random, std::size_t index, bool is_infiniband) {
    const auto number = static_cast<std::uint8_t>(index + 1);
    const std::string name = "fake" + std::to_string(index);
    fake::Device device =
        is_infiniband ? fake::infiniband_device(name, number) : fake::roce_device(name, number);
    device.ports[0].needs_grh = is_infiniband && random() % 2 == 0;
    device.ports[0].active_mtu = one_of(random, {IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096});
    device.ports[0].width = one_of<std::uint8_t>(random, {1, 2});
    device.max_sge = one_of(random, {1, 6, 13, 30});
    device.granted_sge = one_of(random, {0, 0, 1, 3});
    device.slots_by_sges = random() % 2 == 0;
    device.max_mr_size = one_of<Bytes>(random, {8192, 65536 + 100, 1 << 20, 1ULL << 40});
    device.max_cqe = one_of(random, {300, 1000, 1 << 20});
    device.max_inline = one_of(random, {0U, 32U, 256U});
    return device;
}

/// Names the devices or leaves the choice to the transport; one of them may have two ports.
void choose_ports(std::mt19937_64& random, Case& it, bool is_infiniband) {
    VerbsOptions& verbs = it.conditions.verbs;
    fake::Device& first = it.scenario.devices[0];
    const bool has_two_ports = random() % 4 == 0;
    if (has_two_ports) {
        const fake::Device other = random_device(random, it.scenario.devices.size(), is_infiniband);
        first.ports.push_back(other.ports[0]);
        verbs.nics = {"fake0:2"};
    }
    const std::uint16_t partition = one_of<std::uint16_t>(random, {0x8001, 0x0001});
    for (fake::Device& device : it.scenario.devices) {
        for (fake::Port& port : device.ports) port.pkeys.push_back(partition);
        if (has_two_ports || random() % 2 == 0)
            verbs.nics.push_back(device.name + (has_two_ports ? ":1" : ""));
    }
    verbs.pkey_index = one_of(random, {0, 1});
    if (!is_infiniband) verbs.gid_index = one_of(random, {-1, -1, 0, 3});
}

Case random_case(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Case it;
    const bool is_infiniband = random() % 4 == 0;
    const std::size_t devices = 1 + random() % 3;
    for (std::size_t i = 0; i < devices; ++i)
        it.scenario.devices.push_back(random_device(random, i, is_infiniband));
    it.scenario.seed = seed;
    it.scenario.placement =
        one_of(random, {fake::Placement::AtExecution, fake::Placement::AtReceivePoll,
                        fake::Placement::AfterAcknowledgement});
    it.scenario.most_steps = one_of(random, {1U, 4U, 16U, 100U});
    it.scenario.refuses_posts = random() % 2 == 0;
    it.scenario.keeps_completions = random() % 2 == 0;

    VerbsOptions& verbs = it.conditions.verbs;
    choose_ports(random, it, is_infiniband);
    verbs.qps = one_of(random, {0, 1, 2, 4});
    verbs.depth = one_of(random, {0, 4, 8, 32, 100});
    verbs.chunk = one_of<Bytes>(random, {0, 100, 4096, 65536});
    verbs.rows = one_of(random, {Rows::Auto, Rows::Direct, Rows::Gather, Rows::Pack, Rows::Unpack});
    verbs.staging_limit = one_of<Bytes>(random, {2 * GiB, MiB, 1000});
    verbs.region_bytes = one_of<Bytes>(random, {0, 0, 12288});
    it.conditions.window = one_of<Bytes>(random, {0, 0, 5000, 100000});
    it.conditions.max_message = one_of<Bytes>(random, {0, 0, 1000});

    it.half = one_of<Bytes>(random, {4096, 65536, 300000});
    RandomCopies copies(random, it.half);
    const auto kind = random() % 5;
    const char* const kinds[] = {"long", "strided here", "strided there", "strided both",
                                 "many small"};
    if (kind == 0) it.copies = copies.make(5, 1, it.half, false, false);
    if (kind == 4) it.copies = copies.make(3000, 1, 200, false, false);
    if (kind >= 1 && kind <= 3)
        it.copies = copies.make(6, 100, one_of<Bytes>(random, {3, 64, 600}), kind != 2, kind != 1);
    it.text = "seed " + std::to_string(seed) + ": " + std::to_string(devices) + " devices, " +
              kinds[kind] + ", rows " + std::to_string(static_cast<int>(verbs.rows)) + ", depth " +
              std::to_string(verbs.depth) + ", placement " +
              std::to_string(static_cast<int>(it.scenario.placement));
    return it;
}

/// What the transport promises about sizes. The trial writes of `auto` keep to none of it.
void check_sizes(const Case& it) {
    const Bytes longest = it.longest_row();
    const Bytes most = it.conditions.max_message, window = it.conditions.window;
    for (std::size_t i = 0; i < it.scenario.devices.size() && most > 0; ++i)
        EXPECT_LE(fake::counters(i).most_bytes, std::max(most, longest)) << "in one message";
    // A list of requests that was cut short counts when all of it is posted.
    if (window > 0 && !it.scenario.refuses_posts) {
        EXPECT_LE(fake::most_outstanding(), std::max(window, longest)) << "under way";
    }
}

void check_counters(const Case& it, Bytes bytes) {
    Bytes written = 0;
    for (std::size_t i = 0; i < it.scenario.devices.size(); ++i) {
        const fake::Device& device = it.scenario.devices[i];
        const fake::Counters& counters = fake::counters(i);
        for (const auto& [opcode, n] : counters.bytes) written += n;
        EXPECT_LE(counters.most_sges, device.granted_sge > 0 ? device.granted_sge : device.max_sge);
        EXPECT_EQ(counters.not_ready, 0U) << "a receive was missing";
    }
    if (it.conditions.verbs.rows == Rows::Auto) {
        EXPECT_GE(written, bytes);
    } else {
        EXPECT_EQ(written, bytes);
        check_sizes(it);
    }
}

void run(const Case& it) {
    SCOPED_TRACE(it.text);
    fake::begin(it.scenario);
    {
        SelfPush rig(2 * it.half, it.copies, it.conditions);
        const auto first = rig.prepare();
        rig.push_and_check(*first, 1);
        rig.push_and_check(*first, 2);
        const auto second = rig.prepare();
        rig.push_and_check(*second, 3);
        check_counters(it, 3 * rig.bytes());
    }
    expect_no_leak();
}

/// WEIGHTLIFT_FAKE_SEEDS="FIRST LAST" runs others.
std::pair<std::uint64_t, std::uint64_t> seeds() {
    std::pair<std::uint64_t, std::uint64_t> range{1, 400};
    if (const char* text = std::getenv("WEIGHTLIFT_FAKE_SEEDS"))
        std::istringstream(text) >> range.first >> range.second;
    return range;
}

TEST(VerbsOverFake, places_the_right_bytes_whatever_the_devices) {
    for (auto [seed, last] = seeds(); seed <= last && !HasFailure(); ++seed) try {
            run(random_case(seed));
        } catch (const std::exception& error) {
            FAIL() << random_case(seed).text << ": " << error.what();
        }
}

TEST(VerbsOverFake, works_with_10000_regions_and_256_queue_pairs) {
    fake::Scenario scenario{.devices = {fake::roce_device("fake0", 1)}, .most_steps = 1000};
    scenario.devices[0].max_mr = 11'000;
    fake::begin(scenario);
    {
        const Bytes half = 5000 * 4096;
        std::mt19937_64 random(1);
        const std::vector<Copy> copies =
            RandomCopies(random, half).make(100, 1, half, false, false);
        Conditions conditions;
        conditions.verbs.qps = 128;
        conditions.verbs.region_bytes = 4096;
        SelfPush rig(2 * half, copies, conditions);
        const auto push = rig.prepare();
        EXPECT_GE(fake::objects().regions, 10'000U);
        EXPECT_EQ(fake::objects().queue_pairs, 256U);
        for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) rig.push_and_check(*push, epoch);
    }
    expect_no_leak();
}

}  // namespace
}  // namespace weightlift::transport
