// Work requests on their way into the queues.
#include <algorithm>
#include <cerrno>
#include <numeric>

#include "world.hpp"

namespace weightlift::fake {
namespace {

bool is_known(ibv_wr_opcode opcode) {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
           opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_READ;
}

std::vector<ibv_sge> copy_of(const ibv_sge* list, int count) {
    std::vector<ibv_sge> sges(list, list + count);
    std::erase_if(sges, [](const ibv_sge& sge) { return sge.length == 0; });
    return sges;
}

int refusal(const QueuePair& queue_pair, const ibv_send_wr& wr, std::uint32_t slots) {
    if (queue_pair.state != IBV_QPS_RTS && queue_pair.state != IBV_QPS_ERR) return EINVAL;
    if (!is_known(wr.opcode) || wr.num_sge < 0 ||
        static_cast<std::uint32_t>(wr.num_sge) > queue_pair.granted.max_send_sge)
        return EINVAL;
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        const auto bytes =
            std::accumulate(wr.sg_list, wr.sg_list + wr.num_sge, std::uint64_t{0},
                            [](std::uint64_t sum, const ibv_sge& sge) { return sum + sge.length; });
        if (wr.opcode == IBV_WR_RDMA_READ || bytes > queue_pair.granted.max_inline_data)
            return EINVAL;
    }
    return queue_pair.slots_taken + slots > queue_pair.granted.max_send_wr ? ENOMEM : 0;
}

/// So that a post cut short is always followed by a completion, as where the queue is full.
bool awaits_completion(const QueuePair& queue_pair) {
    return std::any_of(queue_pair.send_slots.begin(), queue_pair.send_slots.end(),
                       [](const Slots& taken) { return taken.is_signaled; });
}

void accept(QueuePair& queue_pair, const ibv_send_wr& wr, std::uint32_t slots) {
    Request request;
    request.number = queue_pair.next_request++;
    request.wr = wr;
    request.wr.next = nullptr;
    request.wr.sg_list = nullptr;
    request.sges = copy_of(wr.sg_list, wr.num_sge);
    request.slots = slots;
    if (queue_pair.signals_all) request.wr.send_flags |= IBV_SEND_SIGNALED;
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        for (const ibv_sge& sge : request.sges) {
            // NOLINTNEXTLINE(performance-no-int-to-ptr): verbs has addresses as integers
            const auto* from = reinterpret_cast<const std::byte*>(sge.addr);
            request.inlined.insert(request.inlined.end(), from, from + sge.length);
        }
    }
    const bool is_signaled = (request.wr.send_flags & IBV_SEND_SIGNALED) != 0;
    queue_pair.send_slots.push_back({request.number, slots, is_signaled});
    queue_pair.slots_taken += slots;
    for (const ibv_sge& sge : request.sges) request.bytes += sge.length;
    world().outstanding += request.bytes;
    world().most_outstanding = std::max(world().most_outstanding, world().outstanding);
    Counters& counters = adapter_of(queue_pair.context).counters;
    counters.most_bytes = std::max<std::uint64_t>(counters.most_bytes, request.bytes);
    ++counters.requests;
    counters.sges += static_cast<std::uint64_t>(wr.num_sge);
    counters.signaled += is_signaled ? 1 : 0;
    counters.inlined += (wr.send_flags & IBV_SEND_INLINE) != 0 ? 1 : 0;
    counters.most_sges = std::max(counters.most_sges, wr.num_sge);
    queue_pair.posted.push_back(std::move(request));
}

}  // namespace

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
    auto& queue_pair = *static_cast<QueuePair*>(qp);
    Adapter& adapter = adapter_of(qp->context);
    ++adapter.counters.doorbells;
    std::uint64_t length = 0;
    for (const ibv_send_wr* each = wr; each != nullptr; each = each->next) ++length;
    const bool is_cut = world().scenario.refuses_posts && length > 0 && draw(4) == 0;
    const std::uint64_t most = is_cut ? draw(length) : length;
    std::uint64_t taken = 0;
    for (; wr != nullptr; wr = wr->next, ++taken) {
        const auto sges = static_cast<std::uint32_t>(std::max(wr->num_sge, 0));
        const std::uint32_t slots = adapter.is.slots_by_sges ? (2 + sges + 3) / 4 : 1;
        int error = refusal(queue_pair, *wr, slots);
        if (error == 0 && taken >= most && awaits_completion(queue_pair)) error = ENOMEM;
        if (error != 0) {
            *bad = wr;
            adapter.counters.refused += length - taken;
            return error;
        }
        accept(queue_pair, *wr, slots);
    }
    return 0;
}

int post_receive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
    auto& queue_pair = *static_cast<QueuePair*>(qp);
    for (; wr != nullptr; wr = wr->next) {
        int error = 0;
        if (qp->state == IBV_QPS_RESET || wr->num_sge < 0 ||
            static_cast<std::uint32_t>(wr->num_sge) > queue_pair.granted.max_recv_sge)
            error = EINVAL;
        else if (queue_pair.receives_taken >= queue_pair.granted.max_recv_wr)
            error = ENOMEM;
        if (error != 0) {
            *bad = wr;
            return error;
        }
        ++queue_pair.receives_taken;
        ++adapter_of(qp->context).counters.receives;
        queue_pair.receives.push_back(
            {queue_pair.next_receive++, wr->wr_id, copy_of(wr->sg_list, wr->num_sge)});
    }
    return 0;
}

}  // namespace weightlift::fake
