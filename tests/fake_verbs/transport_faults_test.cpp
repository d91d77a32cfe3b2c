// What goes wrong on the way: each fault ends the push with a TransportError that names the peer
// and what was first, and leaves nothing behind.
#include <chrono>
#include <thread>

#include "self_push.hpp"

namespace weightlift::transport {
namespace {

constexpr Bytes kHalf = 65536;

std::vector<Copy> some_copies(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    RandomCopies copies(random, kHalf);
    return copies.make(40, 8, 400, seed % 2 == 0, seed % 3 == 0);
}

/// The error that a push ends with; empty where it ends well or not at all.
std::string failure_of(Push& push, int patience = kPatience) {
    try {
        static_cast<void>(SelfPush::is_done(push, patience));
    } catch (const TransportError& error) {
        return error.what();
    }
    return "";
}

Conditions conditions_for(std::uint64_t seed) {
    const Rows rows[] = {Rows::Direct, Rows::Gather, Rows::Pack, Rows::Unpack};
    return {.verbs = {.nics = {"fake0", "fake1"},
                      .qps = 1 + static_cast<int>(seed % 3),
                      .chunk = 1000,
                      .depth = 16,
                      .rows = rows[seed % 4]}};
}

/// Pushes once with a fault and checks the error; then pushes again over new connections.
template <class Spoil>
void expect_failure(std::uint64_t seed, const std::vector<std::string>& words, Spoil&& spoil) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fake::begin(two_rails(seed));
    {
        SelfPush rig(2 * kHalf, some_copies(seed), conditions_for(seed));
        auto push = rig.prepare();
        rig.push_and_check(*push, 1);
        rig.fill(2);
        spoil();
        push->start(2, 2);
        const std::string error = failure_of(*push);
        for (const std::string& word : words)
            EXPECT_NE(error.find(word), std::string::npos) << word << " is not in: " << error;
        push.reset();
        rig.connect();
        push = rig.prepare();
        rig.push_and_check(*push, 3);
    }
    expect_no_leak();
}

TEST(VerbsFaults, name_the_first_status_that_is_no_flush) {
    struct Row {
        const char* name;
        ibv_wc_status status;
    };
    const Row rows[] = {
        {"retry exceeded", IBV_WC_RETRY_EXC_ERR},    {"RNR", IBV_WC_RNR_RETRY_EXC_ERR},
        {"remote access", IBV_WC_REM_ACCESS_ERR},    {"remote operation", IBV_WC_REM_OP_ERR},
        {"invalid request", IBV_WC_REM_INV_REQ_ERR}, {"local protection", IBV_WC_LOC_PROT_ERR},
        {"local length", IBV_WC_LOC_LEN_ERR},        {"fatal", IBV_WC_FATAL_ERR}};
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        for (std::uint64_t seed = 1; seed <= 24; ++seed)
            expect_failure(seed, {"rank 0", "epoch 2", ibv_wc_status_str(row.status)}, [&] {
                // Queue pair 0 is the first outgoing one: its notice alone is a request.
                fake::fail_work({.nth = fake::posted(0), .status = row.status, .queue_pair = 0});
            });
    }
}

TEST(VerbsFaults, let_no_wrong_key_through) {
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        fake::begin(two_rails(seed));
        {
            SelfPush rig(2 * kHalf, some_copies(seed), conditions_for(seed));
            const auto push = rig.prepare();
            fake::revoke_remote_keys();
            rig.fill(1);
            push->start(1, 1);
            const std::string error = failure_of(*push);
            // Both ends are here: the responder's event may come first. Neither is a consequence.
            EXPECT_NE(error.find("rank 0"), std::string::npos) << error;
            EXPECT_EQ(error.find("Flushed"), std::string::npos) << error;
        }
        expect_no_leak();
    }
}

TEST(VerbsFaults, name_the_cause_before_its_consequences) {
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        fake::Scenario scenario = two_rails(seed);
        scenario.devices.resize(1);
        fake::begin(scenario);
        {
            Conditions conditions = conditions_for(seed);
            conditions.verbs.nics = {"fake0"};
            conditions.verbs.rows = Rows::Direct;
            SelfPush rig(2 * kHalf, some_copies(seed), conditions);
            const auto push = rig.prepare();
            fake::revoke_remote_keys();
            push->start(1, 1);
            // Receives are flushed at the responder before the requester hears of it.
            fake::advance(10'000);
            const std::string error = failure_of(*push);
            EXPECT_NE(error.find("remote access error"), std::string::npos) << error;
            EXPECT_NE(error.find("to rank 0"), std::string::npos) << error;
        }
        expect_no_leak();
    }
}

TEST(VerbsFaults, refuse_notices_that_are_duplicate_or_foreign) {
    using Kind = fake::ImmediateFault::Kind;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        const auto disturb = [&](Kind kind, std::uint32_t value) {
            return [=] {
                fake::disturb_immediate(
                    {.kind = kind, .nth = fake::immediates() + seed % 3, .value = value});
            };
        };
        expect_failure(seed, {"rank 0"}, disturb(Kind::Duplicate, 0));
        expect_failure(seed, {"rank 0", "epoch 1"}, disturb(Kind::Replace, 1));
        expect_failure(seed, {"rank 0", "epoch 3"}, disturb(Kind::Replace, 3));
        expect_failure(seed, {"rank 0", "parcel"}, disturb(Kind::Replace, 0x80000000U + 77777));
    }
}

TEST(VerbsFaults, wait_for_a_notice_that_is_lost) {
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        fake::begin(two_rails(seed));
        {
            SelfPush rig(2 * kHalf, some_copies(seed), conditions_for(seed));
            auto push = rig.prepare();
            rig.fill(1);
            fake::disturb_immediate(
                {.kind = fake::ImmediateFault::Kind::Drop, .nth = fake::immediates()});
            push->start(1, 1);
            const std::string error = failure_of(*push, 20'000);
            if (error.empty()) {  // else a later parcel has shown that one is missing
                EXPECT_FALSE(push->test());
                EXPECT_EQ(push->pending(), std::vector{0});
            }
            push.reset();
            rig.connect();
            push = rig.prepare();
            rig.push_and_check(*push, 2);
        }
        expect_no_leak();
    }
}

TEST(VerbsFaults, miss_the_last_parcel) {
    fake::begin(two_rails(1));
    {
        // 25 parcels of 40 rows.
        const std::vector<Copy> copies{
            {.src_pitch = 25, .dst_offset = kHalf, .dst_pitch = 60, .rows = 1000, .row_bytes = 25}};
        SelfPush rig(2 * kHalf, copies,
                     {.verbs = {.nics = {"fake0"}, .qps = 1, .chunk = 1000, .rows = Rows::Unpack}});
        auto push = rig.prepare();
        rig.push_and_check(*push, 1);
        ASSERT_EQ(fake::immediates(), 26U);
        fake::disturb_immediate({.kind = fake::ImmediateFault::Kind::Drop, .nth = 26 + 24});
        push->start(2, 2);
        const std::string error = failure_of(*push);
        EXPECT_NE(error.find("after 24 of 25 parcels"), std::string::npos) << error;
    }
    expect_no_leak();
}

TEST(VerbsFaults, end_the_push_on_asynchronous_events) {
    struct Row {
        const char* name;
        ibv_event_type event;
        std::size_t element;
    };
    const Row rows[] = {{"port down", IBV_EVENT_PORT_ERR, 1},
                        {"device fatal", IBV_EVENT_DEVICE_FATAL, 0},
                        {"queue pair fatal", IBV_EVENT_QP_FATAL, 0},
                        {"completion queue", IBV_EVENT_CQ_ERR, 0}};
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        for (std::uint64_t seed = 1; seed <= 12; ++seed) {
            SCOPED_TRACE("seed " + std::to_string(seed));
            fake::begin(two_rails(seed));
            {
                SelfPush rig(2 * kHalf, some_copies(seed), conditions_for(seed));
                const auto push = rig.prepare();
                rig.fill(1);
                push->start(1, 1);
                fake::advance(seed);
                fake::raise(0, row.event, row.element);
                const std::string error = failure_of(*push);
                // The port or the queue pair, and the peer (this rank writes to itself).
                EXPECT_NE(error.find("fake0"), std::string::npos) << error;
                EXPECT_NE(error.find("rank 0"), std::string::npos) << error;
            }
            expect_no_leak();
        }
    }
}

TEST(VerbsFaults, ignore_events_that_concern_nothing_in_use) {
    for (const ibv_event_type event : {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE}) {
        fake::Scenario scenario = two_rails(1);
        scenario.devices[0].ports.push_back(scenario.devices[0].ports[0]);
        scenario.devices[0].ports[1].gids.clear();
        fake::begin(scenario);
        {
            Conditions conditions = conditions_for(1);
            conditions.verbs.nics[0] = "fake0:1";
            SelfPush rig(2 * kHalf, some_copies(1), conditions);
            const auto push = rig.prepare();
            rig.fill(1);
            fake::raise(0, event, 2);
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            push->start(1, 1);
            EXPECT_TRUE(SelfPush::is_done(*push));
            rig.expect_arrived();
        }
        expect_no_leak();
    }
}

TEST(VerbsFaults, survive_a_link_that_flaps) {
    fake::begin(two_rails(1));
    {
        SelfPush rig(2 * kHalf, some_copies(1), conditions_for(1));
        const auto push = rig.prepare();
        rig.fill(1);
        push->start(1, 1);
        fake::lose_packets(true);
        fake::advance(20);
        fake::lose_packets(false);
        EXPECT_TRUE(SelfPush::is_done(*push));
        rig.expect_arrived();
    }
    expect_no_leak();
}

TEST(VerbsFaults, fence_a_push_that_is_given_up) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        fake::Scenario scenario = two_rails(seed);
        scenario.placement =
            seed % 2 == 0 ? fake::Placement::AtReceivePoll : fake::Placement::AfterAcknowledgement;
        scenario.keeps_completions = seed % 3 == 0;
        fake::begin(scenario);
        {
            SelfPush rig(2 * kHalf, some_copies(seed), conditions_for(seed));
            auto push = rig.prepare();
            rig.fill(1);
            push->start(1, 1);
            fake::advance(seed);
            static_cast<void>(push->test());
            push.reset();
            EXPECT_THROW(static_cast<void>(rig.prepare()), TransportError)
                << "before it is connected again";
            rig.fill(2);  // the former values may not come after this
            fake::advance(100);
            rig.expect_untouched();
            rig.connect();
            push = rig.prepare();
            push->start(2, 2);
            ASSERT_TRUE(SelfPush::is_done(*push));
            fake::advance(10'000);
            rig.expect_arrived();
        }
        expect_no_leak();
    }
}

TEST(VerbsFaults, name_the_device_that_does_not_register) {
    for (const int error : {ENOMEM, EPERM, EFAULT})
        for (std::uint64_t nth = 0; nth < 4; ++nth) {
            fake::begin(two_rails(1));
            fake::fail_registration(nth, error);
            try {
                SelfPush rig(2 * kHalf, some_copies(1), conditions_for(1));
                ADD_FAILURE() << "registration " << nth << " has not failed";
            } catch (const TransportError& thrown) {
                const std::string what = thrown.what();
                EXPECT_NE(what.find("fake"), std::string::npos) << what;
                EXPECT_NE(what.find(std::strerror(error)), std::string::npos) << what;
            }
            expect_no_leak();
        }
}

TEST(VerbsFaults, refuse_devices_that_cannot_do_it) {
    struct Row {
        const char* name;
        void (*spoil)(fake::Device&);
        const char* word;
    };
    const Row rows[] = {
        {"no RC", [](fake::Device& d) { d.has_rc = false; }, "reliable connections"},
        {"port down", [](fake::Device& d) { d.ports[0].state = IBV_PORT_DOWN; }, "not ACTIVE"},
        {"no GID", [](fake::Device& d) { d.ports[0].gids.clear(); }, "GID"},
        {"GIDs of another namespace",
         [](fake::Device& d) {
             for (auto& gid : d.ports[0].gids) gid.interface = 0;
         },
         "namespace"},
        {"LID 0", [](fake::Device& d) { d = fake::infiniband_device("fake0", 0); }, "LID 0"},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        fake::Device device = fake::roce_device("fake0", 1);
        row.spoil(device);
        fake::begin({.devices = {device}});
        try {
            SelfPush rig(2 * kHalf, some_copies(1), {});
            ADD_FAILURE() << "not refused";
        } catch (const ConfigError& error) {
            const std::string what = error.what();
            EXPECT_NE(what.find(row.word), std::string::npos) << what;
            EXPECT_NE(what.find("fake0"), std::string::npos) << what;
        }
        expect_no_leak();
    }
}

TEST(VerbsFaults, open_no_more_queue_pairs_than_there_are) {
    fake::Scenario scenario = two_rails(1);
    scenario.devices[1].max_qp = 1;
    fake::begin(scenario);
    try {
        SelfPush rig(2 * kHalf, some_copies(1), conditions_for(1));
        ADD_FAILURE() << "not refused";
    } catch (const TransportError& error) {
        EXPECT_NE(std::string(error.what()).find("fake1"), std::string::npos) << error.what();
    }
    expect_no_leak();
}

}  // namespace
}  // namespace weightlift::transport
