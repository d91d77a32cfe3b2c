// One work request: what the requester's device checks, what the responder's does.
#include <algorithm>
#include <cstring>

#include "world.hpp"

namespace weightlift::fake {
namespace {

bool has_immediate(const Request& request) {
    return request.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
           request.wr.opcode == IBV_WR_SEND_WITH_IMM;
}
bool is_send(const Request& request) {
    return request.wr.opcode == IBV_WR_SEND || request.wr.opcode == IBV_WR_SEND_WITH_IMM;
}

std::optional<ibv_wc_status> take_fault(const QueuePair& queue_pair, std::uint64_t number) {
    auto& faults = world().work_faults;
    const auto found = std::find_if(faults.begin(), faults.end(), [&](const WorkFault& fault) {
        return fault.nth == number &&
               (fault.queue_pair < 0 || fault.queue_pair == queue_pair.order);
    });
    if (found == faults.end()) return std::nullopt;
    const ibv_wc_status status = found->status;
    faults.erase(found);
    return status;
}

void finish(QueuePair& queue_pair, ibv_wc_status status) {
    Request& request = queue_pair.posted.front();
    request.status = status;
    queue_pair.has_failed = status != IBV_WC_SUCCESS;
    queue_pair.attempts = 0;
    if (status == IBV_WC_SUCCESS) {
        Counters& counters = adapter_of(queue_pair.context).counters;
        ++counters.executed[request.wr.opcode];
        counters.bytes[request.wr.opcode] += request.bytes;
    }
    queue_pair.executed.push_back(std::move(request));
    queue_pair.posted.pop_front();
}

/// Where the request's local bytes lie, in pieces; empty optional: not all may be used.
using Pieces = std::vector<std::pair<std::byte*, std::size_t>>;
std::optional<Pieces> local_pieces(QueuePair& queue_pair, Request& request) {
    if ((request.wr.send_flags & IBV_SEND_INLINE) != 0) {
        return Pieces{{request.inlined.data(), request.inlined.size()}};
    }
    const unsigned access = request.wr.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
    Pieces pieces;
    for (const ibv_sge& sge : request.sges) {
        std::byte* at = reach(adapter_of(queue_pair.context), queue_pair.pd, sge.addr, sge.length,
                              sge.lkey, access, false);
        if (at == nullptr) return std::nullopt;
        pieces.emplace_back(at, sge.length);
    }
    return pieces;
}

/// The responder saw something that it may not do.
ibv_wc_status refuse(QueuePair& responder, ibv_wc_status status) {
    ibv_async_event event{};
    event.event_type = IBV_EVENT_QP_ACCESS_ERR;
    event.element.qp = &responder;
    raise_event(*static_cast<Context*>(responder.context), event);
    stop(responder);
    return status;
}

void deliver(QueuePair& requester, QueuePair& responder, const Request& request,
             std::uint32_t immediate) {
    const Receive receive = std::move(responder.receives.front());
    responder.receives.pop_front();
    Completion completion;
    completion.is_receive = true;
    completion.places = responder.promised = responder.next_held;
    completion.wc.wr_id = receive.id;
    completion.wc.opcode = is_send(request) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
    completion.wc.byte_len = static_cast<std::uint32_t>(request.bytes);
    completion.wc.qp_num = responder.qp_num;
    completion.wc.src_qp = requester.qp_num;
    if (has_immediate(request)) {
        completion.wc.imm_data = __builtin_bswap32(immediate);
        completion.wc.wc_flags = IBV_WC_WITH_IMM;
    }
    complete(*static_cast<CompletionQueue*>(responder.recv_cq), completion,
             (request.wr.send_flags & IBV_SEND_SOLICITED) != 0);
}

/// A send's bytes into the receive's pieces. False where they don't fit.
bool scatter(QueuePair& responder, const Pieces& from, std::uint64_t bytes) {
    std::vector<std::byte> message;
    message.reserve(bytes);
    for (const auto& [at, length] : from) message.insert(message.end(), at, at + length);
    std::size_t done = 0;
    for (const ibv_sge& sge : responder.receives.front().sges) {
        const std::size_t part = std::min<std::size_t>(sge.length, message.size() - done);
        std::byte* to = reach(adapter_of(responder.context), responder.pd, sge.addr, part, sge.lkey,
                              IBV_ACCESS_LOCAL_WRITE, false);
        if (to == nullptr) return false;
        std::copy_n(message.begin() + static_cast<std::ptrdiff_t>(done), part, to);
        done += part;
    }
    return done == message.size();
}

/// What the responder's program gets to see of a request.
struct Delivery {
    std::size_t receives = 0;
    std::uint32_t immediate = 0;
};
Delivery delivery_of(const Request& request) {
    if (!has_immediate(request)) return {.receives = is_send(request) ? 1U : 0U};
    Delivery delivery{.receives = 1, .immediate = __builtin_bswap32(request.wr.imm_data)};
    for (const ImmediateFault& fault : world().immediate_faults) {
        if (fault.nth != world().immediates) continue;
        if (fault.kind == ImmediateFault::Kind::Drop) delivery.receives = 0;
        if (fault.kind == ImmediateFault::Kind::Duplicate) delivery.receives = 2;
        if (fault.kind == ImmediateFault::Kind::Replace) delivery.immediate = fault.value;
    }
    return delivery;
}

/// Where the request goes at the responder. Null where it may not, with no bytes too.
std::byte* remote_place(const QueuePair& responder, const Request& request, Region*& region) {
    const auto& remote = request.wr.wr.rdma;
    const unsigned access =
        request.wr.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    if ((responder.attributes.qp_access_flags & access) == 0) return nullptr;
    return reach(adapter_of(responder.context), responder.pd, remote.remote_addr, request.bytes,
                 remote.rkey, access, true, &region);
}

void read(QueuePair& responder, const std::byte* from, const Pieces& into) {
    place_before(responder, responder.next_held);  // a read does not overtake writes
    for (const auto& [to, length] : into) {
        std::memcpy(to, from, length);
        from += length;
    }
}

/// At the responder: the status that the requester gets, or none where it is to try again.
std::optional<ibv_wc_status> respond(QueuePair& requester, QueuePair& responder,
                                     const Request& request, const Pieces& pieces) {
    std::byte* place = nullptr;
    Region* region = nullptr;
    if (!is_send(request) && request.bytes > 0) {  // the key of 0 bytes is not looked at
        place = remote_place(responder, request, region);
        if (place == nullptr) return refuse(responder, IBV_WC_REM_ACCESS_ERR);
    }
    const Delivery delivery = delivery_of(request);
    Counters& counters = adapter_of(responder.context).counters;
    if (responder.receives.size() < delivery.receives) {
        ++counters.not_ready;
        const unsigned retries = requester.attributes.rnr_retry;
        if (++requester.attempts <= retries || retries == 7) return std::nullopt;
        return IBV_WC_RNR_RETRY_EXC_ERR;
    }
    if (request.wr.opcode == IBV_WR_RDMA_READ && place != nullptr) {
        read(responder, place, pieces);
        return IBV_WC_SUCCESS;
    }
    if (is_send(request) && delivery.receives > 0 && !scatter(responder, pieces, request.bytes))
        return refuse(responder, IBV_WC_REM_INV_REQ_ERR);
    if (place != nullptr) {
        for (const auto& [from, length] : pieces) {
            hold(responder, region, place, from, length);
            place += length;
        }
    }
    if (has_immediate(request)) {
        ++world().immediates;
        ++counters.immediates;
    }
    for (std::size_t i = 0; i < delivery.receives; ++i)
        deliver(requester, responder, request, delivery.immediate);
    return IBV_WC_SUCCESS;
}

}  // namespace

void execute(QueuePair& queue_pair) {
    Request& request = queue_pair.posted.front();
    if (const auto status = take_fault(queue_pair, request.number))
        return finish(queue_pair, *status);
    const auto pieces = local_pieces(queue_pair, request);
    if (!pieces) return finish(queue_pair, IBV_WC_LOC_PROT_ERR);
    const auto& ports = adapter_of(queue_pair.context).is.ports;
    if (request.bytes > ports[queue_pair.attributes.port_num - 1U].max_message)
        return finish(queue_pair, IBV_WC_LOC_LEN_ERR);
    QueuePair* peer = peer_of(queue_pair);
    if (peer == nullptr) {
        // Some attempts for each retry: a link that comes back in time loses nothing.
        if (++queue_pair.attempts > 16ULL * (queue_pair.attributes.retry_cnt + 1ULL))
            finish(queue_pair, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    if (const auto status = respond(queue_pair, *peer, request, *pieces))
        finish(queue_pair, *status);
}

}  // namespace weightlift::fake
