// How requests travel: data, notices, errors, and the order of things.
#include <algorithm>
#include <cerrno>

#include "connection.hpp"

namespace weightlift::fake {
namespace {

TEST_F(FakeVerbs, gathers_a_write_and_reads_it_back) {
    End a, b({.device = 1});
    connect(a, b);
    std::fill_n(a.memory.begin(), 8, 1);
    std::fill_n(a.memory.begin() + 100, 8, 2);
    const ibv_sge pieces[] = {a.piece(0, 8), a.piece(100, 4)};
    Write write(a, b, pieces, 50);
    write.request.wr_id = 7;
    ASSERT_EQ(write.post(), 0);
    EXPECT_EQ(bytes_at(b, 50, 12), std::vector<unsigned char>(12)) << "nothing moves by itself";
    const auto completions = a.poll(1);
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].wr_id, 7U);
    EXPECT_EQ(completions[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(bytes_at(b, 48, 16),
              (std::vector<unsigned char>{0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0}));
    const ibv_sge back[] = {a.piece(200, 12)};
    Write read(a, b, back, 50, IBV_WR_RDMA_READ);
    ASSERT_EQ(read.post(), 0);
    EXPECT_EQ(statuses(a.poll(1)), std::vector{IBV_WC_SUCCESS});
    EXPECT_EQ(bytes_at(a, 200, 12), bytes_at(b, 50, 12));
    EXPECT_EQ(counters(0).bytes.at(IBV_WR_RDMA_WRITE), 12U);
    EXPECT_EQ(counters(0).sges, 3U);
    EXPECT_EQ(counters(1).placed_bytes, 12U);
}

TEST_F(FakeVerbs, notifies_with_an_immediate_of_0_bytes) {
    End a, b;
    connect(a, b);
    ASSERT_EQ(b.receive(9), 0);
    Write notice(a, b, {}, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
    notice.request.imm_data = __builtin_bswap32(42);
    notice.request.wr.rdma.rkey = 0;  // nobody looks at it
    ASSERT_EQ(notice.post(), 0);
    const auto completions = b.poll(1);
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].wr_id, 9U);
    EXPECT_EQ(completions[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(completions[0].imm_data, __builtin_bswap32(42));
    EXPECT_EQ(completions[0].src_qp, a.pair->qp_num);
    EXPECT_NE(completions[0].wc_flags & IBV_WC_WITH_IMM, 0U);
    EXPECT_EQ(statuses(a.poll(1)), std::vector{IBV_WC_SUCCESS});
}

TEST_F(FakeVerbs, gives_up_on_a_peer_that_posts_no_receive) {
    End a, b;
    connect(a, b);
    Write notice(a, b, {}, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
    ASSERT_EQ(notice.post(), 0);
    ASSERT_EQ(notice.post(), 0);
    EXPECT_EQ(statuses(a.poll(2)), (std::vector{IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR}));
    EXPECT_EQ(counters(0).not_ready, 3U);
    EXPECT_EQ(a.pair->state, IBV_QPS_ERR);
}

struct Refusal {
    const char* name;
    EndOptions source, destination;
    void (*spoil)(Write&, End&, End&);
    ibv_wc_status status;
};
TEST_F(FakeVerbs, checks_keys_and_ranges) {
    const Refusal refusals[] = {
        {"wrong local key",
         {},
         {},
         [](Write& w, End&, End&) { ++w.sges[0].lkey; },
         IBV_WC_LOC_PROT_ERR},
        {"remote key as local key",
         {},
         {},
         [](Write& w, End& a, End&) { w.sges[0].lkey = a.region->rkey; },
         IBV_WC_LOC_PROT_ERR},
        {"local range",
         {},
         {},
         [](Write& w, End&, End&) { w.sges[0].length = 4097; },
         IBV_WC_LOC_PROT_ERR},
        {"wrong remote key",
         {},
         {},
         [](Write& w, End&, End&) { ++w.request.wr.rdma.rkey; },
         IBV_WC_REM_ACCESS_ERR},
        {"one byte beyond",
         {},
         {},
         [](Write& w, End&, End&) { w.request.wr.rdma.remote_addr += 4096 - 64 + 1; },
         IBV_WC_REM_ACCESS_ERR},
        {"before the region",
         {},
         {},
         [](Write& w, End&, End&) { w.request.wr.rdma.remote_addr -= 1; },
         IBV_WC_REM_ACCESS_ERR},
        {"region not writable",
         {},
         {.region_access = IBV_ACCESS_LOCAL_WRITE},
         [](Write&, End&, End&) {},
         IBV_WC_REM_ACCESS_ERR},
        {"queue pair not writable",
         {},
         {.access = IBV_ACCESS_LOCAL_WRITE},
         [](Write&, End&, End&) {},
         IBV_WC_REM_ACCESS_ERR},
        {"region gone",
         {},
         {},
         [](Write&, End&, End& b) {
             EXPECT_EQ(ibv_dereg_mr(b.region), 0);
             b.region = nullptr;
         },
         IBV_WC_REM_ACCESS_ERR},
        {"peer gone",
         {},
         {},
         [](Write&, End&, End& b) {
             EXPECT_EQ(ibv_destroy_qp(b.pair), 0);
             b.pair = nullptr;
         },
         IBV_WC_RETRY_EXC_ERR},
    };
    for (const Refusal& refusal : refusals) {
        SCOPED_TRACE(refusal.name);
        End a(refusal.source), b(refusal.destination);
        connect(a, b);
        const ibv_sge pieces[] = {a.piece(0, 64)};
        Write good(a, b, pieces, 0), bad(a, b, pieces, 0);
        good.request.send_flags = 0;  // and yet flushed with a completion
        refusal.spoil(bad, a, b);
        ASSERT_EQ(bad.post(), 0);
        ASSERT_EQ(good.post(), 0);
        EXPECT_EQ(statuses(a.poll(2)), (std::vector{refusal.status, IBV_WC_WR_FLUSH_ERR}));
        EXPECT_EQ(a.pair->state, IBV_QPS_ERR);
        EXPECT_EQ(bytes_at(b, 0, 4096), std::vector<unsigned char>(4096));
    }
}

TEST_F(FakeVerbs, loses_packets_where_the_ends_disagree) {
    struct Disagreement {
        const char* name;
        void (*spoil)(ibv_qp_attr&);
    };
    const Disagreement disagreements[] = {
        {"PSN", [](ibv_qp_attr& a) { ++a.rq_psn; }},
        {"queue pair", [](ibv_qp_attr& a) { ++a.dest_qp_num; }},
        {"path MTU", [](ibv_qp_attr& a) { a.path_mtu = IBV_MTU_2048; }},
        {"address", [](ibv_qp_attr& a) { a.ah_attr.grh.dgid.raw[15] = 77; }},
        {"version of RoCE", [](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 2; }},
    };
    for (const auto& [name, spoil] : disagreements) {
        SCOPED_TRACE(name);
        End a, b({.device = 1});
        ASSERT_EQ(a.init(), 0);
        ASSERT_EQ(b.init(), 0);
        ibv_qp_attr to_b = a.ready_to_receive(b), to_a = b.ready_to_receive(a);
        spoil(to_a);
        ASSERT_EQ(ibv_modify_qp(a.pair, &to_b, kReadyToReceive), 0);
        ASSERT_EQ(ibv_modify_qp(b.pair, &to_a, kReadyToReceive), 0);
        ibv_qp_attr send = a.ready_to_send();
        ASSERT_EQ(ibv_modify_qp(a.pair, &send, kReadyToSend), 0);
        Write write(a, b, {}, 0);
        ASSERT_EQ(write.post(), 0);
        EXPECT_EQ(statuses(a.poll(1)), std::vector{IBV_WC_RETRY_EXC_ERR});
    }
}

/// Posts writes and a notice; returns whether the data was there at the write's completion and
/// checks that it is at the notice's.
bool is_placed_when_acknowledged(Placement placement, std::uint64_t seed) {
    begin({.devices = {roce_device("fake0", 1)},
           .seed = seed,
           .placement = placement,
           .most_steps = 1});
    End a, b;
    connect(a, b);
    EXPECT_EQ(b.receive(1), 0);
    std::fill_n(a.memory.begin(), 64, 3);
    const ibv_sge pieces[] = {a.piece(0, 64)};
    Write write(a, b, pieces, 0), notice(a, b, {}, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
    EXPECT_EQ(write.post(), 0);
    EXPECT_EQ(notice.post(), 0);
    EXPECT_EQ(a.poll(1).size(), 1U);
    const bool was_there = b.memory[0] == 3;
    EXPECT_EQ(b.poll(1).size(), 1U);
    EXPECT_EQ(bytes_at(b, 0, 64), std::vector<unsigned char>(64, 3));
    return was_there;
}
TEST(FakeNetwork, places_data_as_late_as_told) {
    int there = 0;
    for (std::uint64_t seed = 1; seed <= 64; ++seed) {
        EXPECT_TRUE(is_placed_when_acknowledged(Placement::AtExecution, seed));
        EXPECT_FALSE(is_placed_when_acknowledged(Placement::AtReceivePoll, seed));
        there += is_placed_when_acknowledged(Placement::AfterAcknowledgement, seed) ? 1 : 0;
    }
    EXPECT_GT(there, 4);
    EXPECT_LT(there, 60);
}

TEST(FakeNetwork, orders_within_a_queue_pair_and_not_across) {
    int first_pair_first = 0;
    for (std::uint64_t seed = 1; seed <= 64; ++seed) {
        begin({.devices = {roce_device("fake0", 1)}, .seed = seed, .most_steps = 3});
        End a, b, c, d;
        connect(a, b);
        connect(c, d);
        Write here(a, b, {}, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
        Write there(c, d, {}, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
        for (End* end : {&b, &d})
            for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(end->receive(i), 0);
        for (unsigned i = 0; i < 4; ++i) {
            here.request.imm_data = there.request.imm_data = i;
            ASSERT_EQ(here.post(), 0);
            ASSERT_EQ(there.post(), 0);
        }
        ibv_wc wc{};
        bool other_was_first = false;
        for (unsigned next = 0; next < 4;) {
            if (next == 0) other_was_first = other_was_first || ibv_poll_cq(d.queue, 1, &wc) == 1;
            if (ibv_poll_cq(b.queue, 1, &wc) == 1) {
                ASSERT_EQ(wc.imm_data, next);
                ASSERT_EQ(wc.wr_id, next);
                ++next;
            }
        }
        first_pair_first += other_was_first ? 0 : 1;
    }
    EXPECT_GT(first_pair_first, 4);
    EXPECT_LT(first_pair_first, 60);
}

TEST(FakeNetwork, is_the_same_for_the_same_seed) {
    const auto trace = [](std::uint64_t seed) {
        begin({.devices = {roce_device("fake0", 1)}, .seed = seed});
        End a, b;
        connect(a, b);
        Write write(a, b, {}, 0);
        std::vector<int> polled;
        for (int i = 0; i < 50; ++i) {
            static_cast<void>(write.post());
            ibv_wc wc[4];
            polled.push_back(ibv_poll_cq(a.queue, 4, wc));
        }
        return polled;
    };
    EXPECT_EQ(trace(5), trace(5));
    EXPECT_NE(trace(5), trace(6));
}

TEST_F(FakeVerbs, misbehaves_where_told_to) {
    End a, b;
    connect(a, b);
    for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(b.receive(i), 0);
    disturb_immediate({.kind = ImmediateFault::Kind::Duplicate, .nth = 0});
    disturb_immediate({.kind = ImmediateFault::Kind::Drop, .nth = 1});
    disturb_immediate({.kind = ImmediateFault::Kind::Replace, .nth = 2, .value = 99});
    fail_work({.nth = 4, .status = IBV_WC_REM_OP_ERR});
    Write notice(a, b, {}, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
    for (unsigned i = 0; i < 5; ++i) {
        notice.request.imm_data = __builtin_bswap32(i);
        ASSERT_EQ(notice.post(), 0);
    }
    std::vector<std::uint32_t> immediates;
    for (const ibv_wc& wc : b.poll(4)) immediates.push_back(__builtin_bswap32(wc.imm_data));
    EXPECT_EQ(immediates, (std::vector<std::uint32_t>{0, 0, 99, 3}));
    EXPECT_EQ(statuses(a.poll(5)), (std::vector{IBV_WC_SUCCESS, IBV_WC_SUCCESS, IBV_WC_SUCCESS,
                                                IBV_WC_SUCCESS, IBV_WC_REM_OP_ERR}));
}

TEST_F(FakeVerbs, loses_nothing_where_a_link_comes_back_in_time) {
    End a({.retry_count = 6}), b({.device = 1});
    connect(a, b);
    raise(1, IBV_EVENT_PORT_ERR, 1);
    Write write(a, b, {}, 0);
    ASSERT_EQ(write.post(), 0);
    advance(60);
    raise(1, IBV_EVENT_PORT_ACTIVE, 1);
    EXPECT_EQ(statuses(a.poll(1)), std::vector{IBV_WC_SUCCESS});
    raise(1, IBV_EVENT_PORT_ERR, 1);
    ASSERT_EQ(write.post(), 0);
    EXPECT_EQ(statuses(a.poll(1)), std::vector{IBV_WC_RETRY_EXC_ERR});
    std::vector<ibv_event_type> events;
    for (int i = 0; i < 3; ++i) {
        ibv_async_event event{};
        ASSERT_EQ(ibv_get_async_event(b.context, &event), 0);
        events.push_back(event.event_type);
        ibv_ack_async_event(&event);
    }
    EXPECT_EQ(events, (std::vector{IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR}));
}

}  // namespace
}  // namespace weightlift::fake
