// Two connected queue pairs over fake devices, as a program would make them by hand.
#pragma once

#include <cstring>
#include <span>

#include <gtest/gtest.h>

#include "fake_verbs.hpp"

namespace weightlift::fake {

inline constexpr int kState = IBV_QP_STATE;
inline constexpr int kInit = kState | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kReadyToReceive = kState | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER;
inline constexpr int kReadyToSend = kState | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
inline constexpr unsigned kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/// Room for this many work requests of this many SGEs.
inline ibv_qp_cap room_for(std::uint32_t requests, std::uint32_t sges) {
    return {.max_send_wr = requests,
            .max_recv_wr = requests,
            .max_send_sge = sges,
            .max_recv_sge = 1,
            .max_inline_data = 64};
}

struct EndOptions {
    std::size_t device = 0;
    int cqe = 64;
    ibv_qp_cap cap = room_for(32, 4);
    unsigned region_access = kWritable | IBV_ACCESS_REMOTE_READ;
    unsigned access = kWritable | IBV_ACCESS_REMOTE_READ;
    unsigned retry_count = 2, not_ready_retry = 2;
};

/// One end: device, domain, 4 KiB of registered memory, one completion queue, one queue pair.
class End {
public:
    explicit End(const EndOptions& options = {}) : options_(options) {
        ibv_device** list = ibv_get_device_list(nullptr);
        context = ibv_open_device(list[options.device]);
        ibv_free_device_list(list);
        domain = ibv_alloc_pd(context);
        region = ibv_reg_mr(domain, memory.data(), memory.size(),
                            static_cast<int>(options.region_access));
        channel = ibv_create_comp_channel(context);
        queue = ibv_create_cq(context, options.cqe, nullptr, channel, 0);
        ibv_qp_init_attr asked{};
        asked.send_cq = asked.recv_cq = queue;
        asked.qp_type = IBV_QPT_RC;
        asked.cap = options.cap;
        pair = ibv_create_qp(domain, &asked);
        granted = asked.cap;
    }
    ~End() {
        if (pair != nullptr) {
            EXPECT_EQ(ibv_destroy_qp(pair), 0);
        }
        EXPECT_EQ(ibv_destroy_cq(queue), 0);
        EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
        if (region != nullptr) {
            EXPECT_EQ(ibv_dereg_mr(region), 0);
        }
        EXPECT_EQ(ibv_dealloc_pd(domain), 0);
        EXPECT_EQ(ibv_close_device(context), 0);
    }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    int init() {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_INIT;
        attributes.port_num = 1;
        attributes.qp_access_flags = options_.access;
        return ibv_modify_qp(pair, &attributes, kInit);
    }
    [[nodiscard]] ibv_qp_attr ready_to_receive(const End& peer) const {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RTR;
        attributes.path_mtu = IBV_MTU_1024;
        attributes.dest_qp_num = peer.pair->qp_num;
        attributes.rq_psn = 100 + peer.pair->qp_num;
        attributes.min_rnr_timer = 12;
        attributes.ah_attr.port_num = 1;
        ibv_port_attr port{};
        ibv_query_port(peer.context, 1, &port);
        if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
            attributes.ah_attr.is_global = 1;
            attributes.ah_attr.grh.sgid_index = 3;
            ibv_query_gid(peer.context, 1, 3, &attributes.ah_attr.grh.dgid);
        } else {
            attributes.ah_attr.dlid = port.lid;
        }
        return attributes;
    }
    [[nodiscard]] ibv_qp_attr ready_to_send() const {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RTS;
        attributes.sq_psn = 100 + pair->qp_num;
        attributes.timeout = 14;
        attributes.retry_cnt = static_cast<std::uint8_t>(options_.retry_count);
        attributes.rnr_retry = static_cast<std::uint8_t>(options_.not_ready_retry);
        return attributes;
    }

    [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(memory.data() + offset);
    }
    [[nodiscard]] ibv_sge piece(std::size_t offset, std::uint32_t bytes) const {
        return {address(offset), bytes, region->lkey};
    }

    int receive(std::uint64_t id) {
        ibv_recv_wr request{};
        request.wr_id = id;
        ibv_recv_wr* bad = nullptr;
        return ibv_post_recv(pair, &request, &bad);
    }

    /// Polls until `count` completions are there, or nothing can come any more.
    std::vector<ibv_wc> poll(std::size_t count) {
        std::vector<ibv_wc> all;
        for (int i = 0; i < 1000 && all.size() < count; ++i) {
            ibv_wc wc{};
            if (ibv_poll_cq(queue, 1, &wc) == 1) all.push_back(wc);
        }
        return all;
    }

    std::vector<unsigned char> memory = std::vector<unsigned char>(4096);
    ibv_context* context = nullptr;
    ibv_pd* domain = nullptr;
    ibv_mr* region = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* queue = nullptr;
    ibv_qp* pair = nullptr;
    ibv_qp_cap granted{};

private:
    EndOptions options_;
};

inline void connect(End& a, End& b) {
    for (End* end : {&a, &b}) ASSERT_EQ(end->init(), 0);
    for (auto [end, peer] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
        ibv_qp_attr attributes = end->ready_to_receive(*peer);
        ASSERT_EQ(ibv_modify_qp(end->pair, &attributes, kReadyToReceive), 0);
    }
    for (End* end : {&a, &b}) {
        ibv_qp_attr attributes = end->ready_to_send();
        ASSERT_EQ(ibv_modify_qp(end->pair, &attributes, kReadyToSend), 0);
    }
}

/// A request from `from`'s memory into `to`'s, to be posted once.
struct Write {
    Write(const End& from, const End& to, std::span<const ibv_sge> from_pieces,
          std::size_t to_offset, ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE)
        : sges(from_pieces.begin(), from_pieces.end()), source(&from) {
        request.sg_list = sges.data();
        request.num_sge = static_cast<int>(sges.size());
        request.opcode = opcode;
        request.send_flags = IBV_SEND_SIGNALED;
        request.wr.rdma.remote_addr = to.address(to_offset);
        request.wr.rdma.rkey = to.region->rkey;
    }
    int post() {
        ibv_send_wr* bad = nullptr;
        return ibv_post_send(source->pair, &request, &bad);
    }
    std::vector<ibv_sge> sges;
    ibv_send_wr request{};
    const End* source;
};

inline std::vector<ibv_wc_status> statuses(const std::vector<ibv_wc>& completions) {
    std::vector<ibv_wc_status> all;
    for (const ibv_wc& wc : completions) all.push_back(wc.status);
    return all;
}

inline std::vector<unsigned char> bytes_at(const End& end, std::size_t offset, std::size_t count) {
    const auto from = end.memory.begin() + static_cast<std::ptrdiff_t>(offset);
    return {from, from + static_cast<std::ptrdiff_t>(count)};
}

class FakeVerbs : public testing::Test {
protected:
    void SetUp() override {
        begin({.devices = {roce_device("fake0", 1), roce_device("fake1", 2)}});
    }
    void TearDown() override {
        EXPECT_EQ(objects(), Objects{});
        EXPECT_TRUE(misuses().empty()) << misuses().front();
    }
};

}  // namespace weightlift::fake
