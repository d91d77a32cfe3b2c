#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "resources.hpp"

namespace weightlift::transport::verbs {
namespace {

constexpr std::uint32_t kPacketMask = 0xffffff;
constexpr std::uint8_t kHopLimit = 64;
/// 0.64 ms between two tries where a receive is missing, which is a moment after a push at most.
constexpr std::uint8_t kMinRnrTimer = 12;
constexpr std::uint8_t kRnrRetries = 6;  // 7 would be for ever

std::uint32_t random_packet_number() {
    std::random_device source;
    return source() & kPacketMask;
}

ibv_mtu to_verbs_mtu(int bytes) {
    if (bytes >= 4096) return IBV_MTU_4096;
    if (bytes >= 2048) return IBV_MTU_2048;
    if (bytes >= 1024) return IBV_MTU_1024;
    return bytes >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

/// Devices refuse sizes that are allowed one by one but not together (send queue slots shrink as
/// entries and inline bytes grow), so what is asked is lowered until it is granted.
PairPtr create(const Device& device, ibv_cq* queue, const Shape& shape) {
    Shape ask = shape;
    while (true) {
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = queue;
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap.max_send_wr = static_cast<std::uint32_t>(ask.sends);
        attributes.cap.max_recv_wr = static_cast<std::uint32_t>(ask.receives);
        attributes.cap.max_send_sge = static_cast<std::uint32_t>(ask.sge);
        attributes.cap.max_recv_sge = 1;
        attributes.cap.max_inline_data = static_cast<std::uint32_t>(ask.inline_bytes);
        PairPtr pair(ibv_create_qp(device.domain(), &attributes));
        if (pair) return pair;
        const int error = errno;
        if (error != ENOMEM && error != EINVAL)
            throw system_error("no queue pair on " + device.label(), error);
        if (ask.inline_bytes > 0) {
            ask.inline_bytes = 0;
        } else if (ask.sge > 1) {
            ask.sge /= 2;
        } else if (ask.sends > 8) {
            ask.sends /= 2;
        } else {
            throw system_error(fmt::format("no queue pair on {} (of at most {})", device.label(),
                                           device.nic().limits.qp),
                               error);
        }
    }
}

}  // namespace

QueuePair::QueuePair(Device& device, Shape shape, const VerbsOptions& options, int access,
                     int expected_entries)
    : device_(&device), first_packet_(random_packet_number()) {
    const NicLimits& limits = device.nic().limits;
    if (limits.qp_wr > 0) shape.sends = std::min(shape.sends, limits.qp_wr);
    if (limits.sge > 0) shape.sge = std::min(shape.sge, limits.sge);
    // Flushed requests complete, each of them: all that is outstanding needs an entry.
    ibv_cq* const queue = device.reserve(shape.sends + shape.receives, expected_entries);
    pair_ = create(device, queue, shape);
    ibv_qp_attr now{};
    ibv_qp_init_attr granted{};
    if (const int error = ibv_query_qp(pair_.get(), &now, IBV_QP_CAP, &granted); error != 0)
        throw system_error("cannot read what a queue pair on " + device.label() + " was granted",
                           error);
    // More than asked is not used: the completion queue was sized by what was asked.
    const auto least = [](std::uint32_t given, int asked) {
        return std::min(static_cast<int>(given), asked);
    };
    shape_ = {.sends = least(granted.cap.max_send_wr, shape.sends),
              .receives = least(granted.cap.max_recv_wr, shape.receives),
              .sge = least(granted.cap.max_send_sge, shape.sge),
              .inline_bytes = least(granted.cap.max_inline_data, shape.inline_bytes)};
    // A full request fits also where the queue is counted in slots of 64 bytes (see sender.cpp).
    shape_.sge = std::min(shape_.sge, 4 * shape_.sends - 2);

    ibv_qp_attr init{};
    init.qp_state = IBV_QPS_INIT;
    init.port_num = static_cast<std::uint8_t>(device.port().number);
    init.pkey_index = static_cast<std::uint16_t>(options.pkey_index);
    init.qp_access_flags = static_cast<unsigned>(access);
    if (const int error =
            ibv_modify_qp(pair_.get(), &init,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        error != 0)
        throw system_error(fmt::format("a queue pair on {} does not open (pkey index {})",
                                       device.label(), options.pkey_index),
                           error);
}

void QueuePair::connect(const Rail& peer, Endpoint endpoint, const VerbsOptions& options) {
    const NicPort& port = device_->port();
    const GidChoice& gid = device_->gid();
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = to_verbs_mtu(std::min(port.mtu, peer.mtu));
    attr.dest_qp_num = endpoint.number;
    attr.rq_psn = endpoint.first_packet;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = kMinRnrTimer;
    attr.ah_attr.port_num = static_cast<std::uint8_t>(port.number);
    attr.ah_attr.sl = static_cast<std::uint8_t>(options.service_level);
    attr.ah_attr.dlid = peer.lid;
    // A LID means something within its own subnet only (the first half of a GID).
    const bool crosses = port.link == LinkLayer::InfiniBand &&
                         !std::equal(peer.gid.begin(), peer.gid.begin() + 8, gid.gid.begin());
    if (gid.uses_grh || crosses) {
        attr.ah_attr.is_global = 1;
        std::memcpy(attr.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
        attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(std::max(gid.index, 0));
        attr.ah_attr.grh.hop_limit = kHopLimit;
        attr.ah_attr.grh.traffic_class = static_cast<std::uint8_t>(options.traffic_class);
    }
    int error = ibv_modify_qp(pair_.get(), &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error != 0)
        throw system_error(
            fmt::format("no way from {} (GID {} {}) to {} (LID {})", device_->label(), gid.index,
                        transport::to_string(gid.gid), transport::to_string(peer.gid), peer.lid),
            error);
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = static_cast<std::uint8_t>(options.retry_timeout);
    attr.retry_cnt = static_cast<std::uint8_t>(options.retry_count);
    attr.rnr_retry = kRnrRetries;
    attr.sq_psn = first_packet_;
    attr.max_rd_atomic = 1;
    error = ibv_modify_qp(pair_.get(), &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    if (error != 0)
        throw system_error("a queue pair on " + device_->label() + " does not start", error);
}

void QueuePair::post_receive(std::uint64_t id) {
    ibv_recv_wr request{};
    request.wr_id = id;
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(pair_.get(), &request, &bad); error != 0)
        throw system_error("cannot post a receive on " + device_->label(), error);
}

void QueuePair::fence() noexcept {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    (void)ibv_modify_qp(pair_.get(), &attr,
                        IBV_QP_STATE);  // it is destroyed next, whatever this says
}

}  // namespace weightlift::transport::verbs
