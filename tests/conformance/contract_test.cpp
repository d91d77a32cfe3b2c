// The rest of the contract of transport.hpp: restart, arrival, refusal. Run by mpirun with 2 and 4
// ranks.
#include "conformance/rig.hpp"

namespace weightlift::transport {
namespace {

class Contract : public testing::TestWithParam<std::string_view> {
protected:
    void SetUp() override {
        if (const auto why = cannot_test(GetParam()); !why.empty()) GTEST_SKIP() << why;
    }
};

/// Rank 0 writes 3000 of 10000 bytes to the last rank.
Scenario one_write() {
    const int last = mpi::Communicator::world().size() - 1;
    return {10000, {{0, last, {0, 100, 3000, 5000, 3000, 1, 3000}}}};
}

template <class E, class F>
std::string text_of(F action) {
    try {
        action();
    } catch (const E& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST_P(Contract, the_same_push_can_be_started_many_times) {
    Rig rig(GetParam(), one_write());
    const auto push = rig.transport().prepare(rig.plan());
    for (std::uint64_t epoch = 1; epoch <= 10; ++epoch) rig.push_and_check(*push, epoch);
    EXPECT_EQ(push->completed_bytes(), 10 * rig.bytes_written());
}

TEST_P(Contract, pushes_prepared_one_after_the_other_count_on) {
    Rig rig(GetParam(), one_write());
    for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
        const auto push = rig.transport().prepare(rig.plan());
        rig.push_and_check(*push, epoch);
    }
}

TEST_P(Contract, a_destination_waits_for_its_source_and_says_so) {
    Rig rig(GetParam(), one_write());
    const auto push = rig.transport().prepare(rig.plan());
    EXPECT_TRUE(push->pending().empty());
    rig.fill(1);
    if (rig.is_written()) {
        push->start(1, 1);
        for (int i = 0; i < 1000; ++i) ASSERT_FALSE(push->test());
        EXPECT_EQ(push->pending(), std::vector<int>{0});
    }
    rig.world().barrier(soon(), "destination is waiting");
    if (!rig.is_written()) push->start(1, 1);
    Rig::finish(*push);
    EXPECT_TRUE(push->test()) << "done stays done";
    EXPECT_TRUE(push->pending().empty());
    rig.world().barrier(soon(), "done");
}

TEST_P(Contract, a_destination_refuses_an_epoch_that_is_not_the_one_under_way) {
    // All ranks leave by an exception, as they do where one of them fails.
    const std::string text = text_of<TransportError>([&] {
        Rig rig(GetParam(), one_write());
        const auto push = rig.transport().prepare(rig.plan());
        rig.push_and_check(*push, 1);
        push->start(2, rig.writes() ? 7 : 2);
        Rig::finish(*push);
        throw TransportError("the destination refuses");
    });
    const auto world = mpi::Communicator::world();
    if (world.rank() + 1 == world.size()) {
        EXPECT_NE(text.find("rank 0 has notified epoch 7"), std::string::npos) << text;
    }
    world.barrier(soon(), "refused");
}

/// Prepares on all ranks with this rank's plan changed; rank 0 must be refused, naming its peer.
void expect_refusal(std::string_view transport, const std::function<void(BoundPlan&)>& change) {
    Rig rig(transport, one_write());
    BoundPlan plan = rig.plan();
    if (rig.writes()) {
        change(plan);
        const std::string text =
            text_of<TransportError>([&] { (void)rig.transport().prepare(std::move(plan)); });
        const std::string peer = "rank " + std::to_string(rig.world().size() - 1);
        EXPECT_NE(text.find(peer), std::string::npos) << text;
    }
    rig.world().barrier(soon(), "refused");
}

TEST_P(Contract, a_wrong_key_is_refused) {
    expect_refusal(GetParam(), [](BoundPlan& plan) { plan.destinations[0].key = RegionKey{}; });
    expect_refusal(GetParam(), [](BoundPlan& plan) {  // another backend's tag
        plan.destinations[0].key.blob[0] ^= std::byte{1};
    });
    expect_refusal(GetParam(), [](BoundPlan& plan) {  // another rank, process, region
        for (std::size_t i = 4; i < 8; ++i) plan.destinations[0].key.blob[i] ^= std::byte{1};
    });
    expect_refusal(GetParam(), [](BoundPlan& plan) {
        for (std::size_t i = 0; i < plan.destinations[0].key.size; ++i)
            plan.destinations[0].key.blob[i] = std::byte{0xff};
    });
    expect_refusal(GetParam(), [](BoundPlan& plan) { --plan.destinations[0].region_bytes; });
}

TEST_P(Contract, a_copy_that_leaves_a_region_is_refused) {
    expect_refusal(GetParam(), [](BoundPlan& plan) { plan.copies[0].dst_offset = 7001; });
    expect_refusal(GetParam(), [](BoundPlan& plan) { plan.copies[0].src_offset = 7001; });
    expect_refusal(GetParam(), [](BoundPlan& plan) { plan.copies[0].dst_offset = ~Bytes{0} - 10; });
    expect_refusal(GetParam(),
                   [](BoundPlan& plan) { plan.copies[0] = {0, 0, 8, 0, ~Bytes{0} / 2, 3, 8}; });
    expect_refusal(GetParam(), [](BoundPlan& plan) {  // rows over each other
        plan.copies[0] = {0, 0, 100, 0, 50, 3, 100};
    });
}

TEST_P(Contract, keeps_apart_two_pushes_with_other_peers) {
    // The first to the last rank, the second to all but rank 0.
    const int ranks = mpi::Communicator::world().size();
    Scenario all{10000, {}};
    for (int dst = 1; dst < ranks; ++dst)
        all.moves.push_back({0, dst, {0, 100, 3000, 5000, 3000, 1, 3000}});
    Rig rig(GetParam(), all);
    BoundPlan first = rig.plan();
    if (rig.writes()) {
        first.destinations = {first.destinations.back()};
        first.copies = {first.copies.back()};
        first.copies[0].destination = 0;
    } else if (rig.rank() + 1 < ranks) {
        first.sources.clear();
    }
    const auto one = rig.transport().prepare(std::move(first));
    rig.fill(1);
    one->start(1, 1);
    Rig::finish(*one);
    rig.world().barrier(soon(), "first");
    const auto two = rig.transport().prepare(rig.plan());
    rig.push_and_check(*two, 2);
}

TEST(Staging, is_shared_by_ranks_of_one_host_unless_one_of_them_keeps_it_apart) {
    if (const auto why = cannot_test("staged"); !why.empty()) GTEST_SKIP() << why;
    const int last = mpi::Communicator::world().size() - 1;
    Rig rig("staged", one_write());
    const auto push = rig.transport().prepare(rig.plan());
    std::string expected;
    if (rig.writes())
        expected = shares_staging(0) && shares_staging(last)
                       ? "1 of 1 destinations reached through shared staging"
                       : "0 of 1 destinations reached through shared staging, others by messages "
                         "(the staging of rank " +
                             std::to_string(last) + " is kept apart)";
    EXPECT_EQ(rig.transport().attachment().staging, expected);
    rig.push_and_check(*push, 1);
}

INSTANTIATE_TEST_SUITE_P(Transports, Contract,
                         testing::ValuesIn(transport_names().begin(), transport_names().end()),
                         [](const auto& row) { return std::string(row.param); });

TEST(Registry, names_what_is_built_in_for_an_unknown_transport) {
    const std::string text = text_of<ConfigError>([] { (void)transport_capabilities("pigeon"); });
    EXPECT_NE(text.find("pigeon"), std::string::npos) << text;
    for (const auto name : transport_names()) EXPECT_NE(text.find(name), std::string::npos) << text;
}

}  // namespace
}  // namespace weightlift::transport
