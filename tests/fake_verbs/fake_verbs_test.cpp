#include "fake_verbs.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "connection.hpp"

namespace weightlift::fake {
namespace {

TEST_F(FakeVerbs, lists_and_describes_its_devices) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 2);
    EXPECT_EQ(list[2], nullptr);
    EXPECT_STREQ(ibv_get_device_name(list[1]), "fake1");
    ibv_context* context = ibv_open_device(list[1]);
    ibv_free_device_list(list);
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
    ibv_gid_entry entries[8];
    ASSERT_EQ(ibv_query_gid_table(context, entries, 8, 0), 3);  // the empty slot is left out
    EXPECT_EQ(entries[1].gid_index, 2U);
    EXPECT_EQ(entries[1].gid_type, std::uint32_t{IBV_GID_TYPE_ROCE_V1});
    ibv_gid_entry entry{};
    EXPECT_EQ(ibv_query_gid_ex(context, 1, 1, &entry, 0), ENODATA);
    EXPECT_EQ(ibv_query_gid_ex(context, 1, 3, &entry, 0), 0);
    EXPECT_EQ(entry.gid.raw[14], 2);
    __be16 pkey = 0;
    EXPECT_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
    EXPECT_EQ(pkey, 0xffff);
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST_F(FakeVerbs, demands_the_attributes_of_each_state) {
    End a, b;
    ibv_qp_attr attributes = a.ready_to_receive(b);
    EXPECT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToReceive), EINVAL) << "from RESET";
    ASSERT_EQ(a.init(), 0);
    for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1)
        if (bit != kState && (kReadyToReceive & bit) != 0) {
            EXPECT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToReceive & ~bit), EINVAL) << bit;
        }
    EXPECT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToReceive | IBV_QP_TIMEOUT), EINVAL);
    attributes.ah_attr.is_global = 0;
    EXPECT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToReceive), EINVAL) << "RoCE by LID";
    attributes = a.ready_to_receive(b);
    attributes.ah_attr.grh.sgid_index = 1;
    EXPECT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToReceive), EINVAL) << "an empty slot";
    attributes = a.ready_to_receive(b);
    attributes.rq_psn = 1U << 24;
    EXPECT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToReceive), EINVAL) << "PSN of 25 bits";
    attributes = a.ready_to_receive(b);
    ASSERT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToReceive), 0);
    Write early(a, b, {}, 0);
    EXPECT_EQ(early.post(), EINVAL) << "before RTS";
    attributes = a.ready_to_send();
    EXPECT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToSend & ~IBV_QP_SQ_PSN), EINVAL);
    ASSERT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToSend), 0);
    EXPECT_EQ(a.pair->state, IBV_QPS_RTS);
}

TEST_F(FakeVerbs, counts_slots_until_a_later_completion_is_polled) {
    End a({.cap = room_for(2, 1)}), b;
    connect(a, b);
    Write write(a, b, {}, 0);
    write.request.send_flags = 0;
    ASSERT_EQ(write.post(), 0);
    ASSERT_EQ(write.post(), 0);
    EXPECT_EQ(write.post(), ENOMEM);
    advance(100);
    EXPECT_EQ(a.poll(1).size(), 0U);
    EXPECT_EQ(write.post(), ENOMEM) << "executed, but no completion says so";
    ASSERT_EQ(a.receive(1), 0);
    ASSERT_EQ(a.receive(2), 0);
    EXPECT_EQ(a.receive(3), ENOMEM);
    const ibv_sge pieces[] = {a.piece(0, 1), a.piece(1, 1)};
    Write wide(a, b, pieces, 0);
    EXPECT_EQ(wide.post(), EINVAL) << "more SGEs than granted";

    End c({.cap = room_for(2, 1)}), d;
    connect(c, d);
    Write first(c, d, {}, 0), second(c, d, {}, 0), third(c, d, {}, 0);
    first.request.send_flags = 0;
    first.request.next = &second.request;
    second.request.next = &third.request;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(c.pair, &first.request, &bad), ENOMEM);
    EXPECT_EQ(bad, &third.request);
    EXPECT_EQ(c.poll(2).size(), 1U);
    EXPECT_EQ(third.post(), 0) << "the signaled one retired both";
    EXPECT_EQ(c.poll(1).size(), 1U);
}

TEST(FakeDevices, grant_fewer_sges_and_shrink_the_queue_by_sges) {
    Device device = roce_device("fake0", 1);
    device.granted_sge = 3;
    device.slots_by_sges = true;
    begin({.devices = {device}});
    {
        End a({.cap = room_for(4, 4)});
        End b;
        EXPECT_EQ(a.granted.max_send_sge, 3U);
        connect(a, b);
        const ibv_sge pieces[] = {a.piece(0, 1), a.piece(1, 1), a.piece(2, 1)};
        Write write(a, b, pieces, 0);
        EXPECT_EQ(write.post(), 0);
        EXPECT_EQ(write.post(), 0);
        EXPECT_EQ(write.post(), ENOMEM) << "two slots each";
    }
    EXPECT_EQ(objects(), Objects{});
}

TEST_F(FakeVerbs, copies_inline_data_when_posted) {
    End a, b;
    connect(a, b);
    a.memory[0] = 5;
    const ibv_sge pieces[] = {{a.address(0), 1, 0}};
    Write write(a, b, pieces, 10);
    write.request.send_flags |= IBV_SEND_INLINE;
    ASSERT_EQ(write.post(), 0);
    a.memory[0] = 6;
    EXPECT_EQ(statuses(a.poll(1)), std::vector{IBV_WC_SUCCESS});
    EXPECT_EQ(b.memory[10], 5);
    const ibv_sge long_piece[] = {{a.address(0), 65, 0}};
    Write too_long(a, b, long_piece, 10);
    too_long.request.send_flags |= IBV_SEND_INLINE;
    EXPECT_EQ(too_long.post(), EINVAL);
}

TEST_F(FakeVerbs, kills_a_completion_queue_that_overflows) {
    End a({.cqe = 2}), b;
    connect(a, b);
    Write write(a, b, {}, 0);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(write.post(), 0);
    advance(100);
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(a.queue, 1, &wc), 0);
    pollfd ready{a.context->async_fd, POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 0), 1);
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(a.context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
    EXPECT_EQ(event.element.cq, a.queue);
    ibv_ack_async_event(&event);
    EXPECT_EQ(a.pair->state, IBV_QPS_ERR);
}

TEST_F(FakeVerbs, flushes_both_queues_of_a_pair_in_error) {
    End a, b;
    connect(a, b);
    ASSERT_EQ(a.receive(1), 0);
    Write write(a, b, {}, 0);
    ASSERT_EQ(write.post(), 0);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(a.pair, &attributes, kState), 0);
    EXPECT_EQ(statuses(a.poll(3)), (std::vector{IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR}));
    ASSERT_EQ(write.post(), 0) << "flushed too";
    EXPECT_EQ(statuses(a.poll(2)), std::vector{IBV_WC_WR_FLUSH_ERR});
    attributes.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(ibv_modify_qp(a.pair, &attributes, kState), 0);
    EXPECT_EQ(a.init(), 0);
}

TEST_F(FakeVerbs, wakes_an_armed_channel_once) {
    End a, b;
    connect(a, b);
    ASSERT_EQ(ibv_req_notify_cq(a.queue, 0), 0);
    Write write(a, b, {}, 0);
    ASSERT_EQ(write.post(), 0);
    ASSERT_EQ(write.post(), 0);
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(a.channel, &queue, &context), 0);
    EXPECT_EQ(queue, a.queue);
    ibv_ack_cq_events(queue, 1);
    ASSERT_EQ(::fcntl(a.channel->fd, F_SETFL, O_NONBLOCK), 0);
    EXPECT_EQ(a.poll(2).size(), 2U);
    EXPECT_EQ(ibv_get_cq_event(a.channel, &queue, &context), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(FakeVerbs, checks_what_is_registered) {
    End a;
    const auto refused = [&](std::size_t bytes, unsigned access) {
        errno = 0;
        EXPECT_EQ(ibv_reg_mr(a.domain, a.memory.data(), bytes, access), nullptr);
        return errno;
    };
    EXPECT_EQ(refused(4096, IBV_ACCESS_REMOTE_WRITE), EINVAL) << "without local write";
    EXPECT_EQ(refused(0, 0), EINVAL);
    EXPECT_EQ(refused(1ULL << 41, 0), EINVAL) << "max_mr_size";
    EXPECT_EQ(ibv_reg_mr(a.domain, reinterpret_cast<void*>(4096), 4096, 0), nullptr);
    EXPECT_EQ(errno, EFAULT) << "nothing is mapped there";
    fail_registration(5, ENOMEM);
    EXPECT_EQ(refused(4096, 0), ENOMEM);

    const int fd = ::memfd_create("dma-buf", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, 8192), 0);
    EXPECT_EQ(ibv_reg_dmabuf_mr(a.domain, 1, 4096, 0x10000, fd, 0), nullptr) << "offset in a page";
    ibv_mr* region = ibv_reg_dmabuf_mr(a.domain, 4096, 4096, 0x10000, fd, kWritable);
    ASSERT_NE(region, nullptr);
    End b;
    connect(b, a);
    b.memory[0] = 17;
    const ibv_sge pieces[] = {b.piece(0, 1)};
    Write write(b, a, pieces, 0);
    write.request.wr.rdma.remote_addr = 0x10000 + 4095;
    write.request.wr.rdma.rkey = region->rkey;
    ASSERT_EQ(write.post(), 0);
    EXPECT_EQ(statuses(b.poll(1)), std::vector{IBV_WC_SUCCESS});
    unsigned char byte = 0;
    EXPECT_EQ(::pread(fd, &byte, 1, 8191), 1);
    EXPECT_EQ(byte, 17);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
    ::close(fd);
}

TEST_F(FakeVerbs, keeps_objects_that_are_in_use) {
    End a;
    EXPECT_EQ(ibv_dealloc_pd(a.domain), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(a.queue), EBUSY);
    EXPECT_EQ(ibv_destroy_comp_channel(a.channel), EBUSY);
    const Objects expected{.contexts = 1,
                           .domains = 1,
                           .regions = 1,
                           .channels = 1,
                           .completion_queues = 1,
                           .queue_pairs = 1};
    EXPECT_EQ(objects(), expected);
}

TEST(FakeDevices, reach_each_other_by_lid) {
    begin({.devices = {infiniband_device("ib0", 3), infiniband_device("ib1", 4)}});
    {
        End a, b({.device = 1});
        connect(a, b);
        Write write(a, b, {}, 0);
        ASSERT_EQ(write.post(), 0);
        EXPECT_EQ(statuses(a.poll(1)), std::vector{IBV_WC_SUCCESS});
    }
    Device strict = infiniband_device("ib0", 3);
    strict.ports[0].needs_grh = true;
    begin({.devices = {strict}});
    {
        End a, b;
        ASSERT_EQ(a.init(), 0);
        ibv_qp_attr attributes = a.ready_to_receive(b);
        EXPECT_EQ(ibv_modify_qp(a.pair, &attributes, kReadyToReceive), EINVAL);
    }
}

TEST(FakeDevices, report_what_would_hang) {
    begin({.devices = {roce_device("fake0", 1)}});
    {
        End a;
        ibv_async_event event{};
        EXPECT_EQ(ibv_get_async_event(a.context, &event), -1);
        raise(0, IBV_EVENT_QP_FATAL, 0);
        EXPECT_EQ(ibv_get_async_event(a.context, &event), 0);
    }
    EXPECT_EQ(misuses(),
              (std::vector<std::string>{
                  "ibv_get_async_event blocks for ever",
                  "an object is destroyed before its asynchronous events are acknowledged"}));
}

}  // namespace
}  // namespace weightlift::fake
