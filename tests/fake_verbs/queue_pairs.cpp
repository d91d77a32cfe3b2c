// Queue pairs: creation, and the states of a reliable connection.
#include <algorithm>
#include <cerrno>

#include "world.hpp"

namespace weightlift::fake {

void forget_events(Context& context, void* element);

namespace {

struct Transition {
    ibv_qp_state from, to;
    int required, optional;
};
constexpr Transition transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

bool is_allowed(ibv_qp_state from, ibv_qp_state to, int mask) {
    mask &= ~IBV_QP_STATE;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return mask == 0;
    return std::any_of(std::begin(transitions), std::end(transitions), [&](const Transition& t) {
        return t.from == from && t.to == to && (mask & t.required) == t.required &&
               (mask & ~(t.required | t.optional)) == 0;
    });
}

bool is_address_legal(const Port& port, const ibv_ah_attr& address) {
    const bool is_ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    if ((is_ethernet || port.needs_grh) && address.is_global == 0) return false;
    if (address.is_global == 0) return address.dlid != 0;
    if (address.grh.sgid_index >= port.gids.size()) return false;
    const auto& bytes = port.gids[address.grh.sgid_index].bytes;
    return std::any_of(bytes.begin(), bytes.end(), [](auto byte) { return byte != 0; });
}

/// Values of the attributes in `mask`, given those that were there before.
bool are_legal(const Device& device, const ibv_qp_attr& now, int mask) {
    if (now.port_num < 1 || now.port_num > device.ports.size()) return false;
    const Port& port = device.ports[now.port_num - 1U];
    constexpr unsigned known =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    const auto psn_is_legal = [](std::uint32_t psn) { return psn < 1U << 24; };
    const auto has = [&](int bit) { return (mask & bit) != 0; };
    return (!has(IBV_QP_PKEY_INDEX) || now.pkey_index < port.pkeys.size()) &&
           (!has(IBV_QP_ACCESS_FLAGS) || (now.qp_access_flags & ~known) == 0) &&
           (!has(IBV_QP_AV) ||
            (now.ah_attr.port_num == now.port_num && is_address_legal(port, now.ah_attr))) &&
           (!has(IBV_QP_PATH_MTU) ||
            (now.path_mtu >= IBV_MTU_256 && now.path_mtu <= port.active_mtu)) &&
           (!has(IBV_QP_RQ_PSN) || psn_is_legal(now.rq_psn)) &&
           (!has(IBV_QP_SQ_PSN) || psn_is_legal(now.sq_psn)) &&
           (!has(IBV_QP_MIN_RNR_TIMER) || now.min_rnr_timer < 32) &&
           (!has(IBV_QP_TIMEOUT) || now.timeout < 32) &&
           (!has(IBV_QP_RETRY_CNT) || now.retry_cnt < 8) &&
           (!has(IBV_QP_RNR_RETRY) || now.rnr_retry < 8) &&
           (!has(IBV_QP_MAX_QP_RD_ATOMIC) || now.max_rd_atomic <= device.max_rd_atomic) &&
           (!has(IBV_QP_MAX_DEST_RD_ATOMIC) || now.max_dest_rd_atomic <= device.max_rd_atomic);
}

void take(ibv_qp_attr& into, const ibv_qp_attr& from, int mask) {
    const auto copy = [&](int bit, auto member) {
        if ((mask & bit) != 0) into.*member = from.*member;
    };
    copy(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
    copy(IBV_QP_PORT, &ibv_qp_attr::port_num);
    copy(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
    copy(IBV_QP_AV, &ibv_qp_attr::ah_attr);
    copy(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
    copy(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
    copy(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
    copy(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
    copy(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
    copy(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
    copy(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
    copy(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
    copy(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
    copy(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
}

void drop_completions(const QueuePair& queue_pair) {
    for (ibv_cq* cq : {queue_pair.send_cq, queue_pair.recv_cq})
        std::erase_if(static_cast<CompletionQueue*>(cq)->entries, [&](const Completion& entry) {
            return entry.wc.qp_num == queue_pair.qp_num;
        });
}

void forget_work(QueuePair& queue_pair) {
    for (const auto* list : {&queue_pair.posted, &queue_pair.executed})
        for (const Request& request : *list) world().outstanding -= request.bytes;
    queue_pair.posted.clear();
    queue_pair.executed.clear();
}

/// All work is forgotten without a completion.
void reset(QueuePair& queue_pair) {
    stop(queue_pair);
    drop_completions(queue_pair);
    forget_work(queue_pair);
    queue_pair.receives.clear();
    queue_pair.send_slots.clear();
    queue_pair.slots_taken = queue_pair.receives_taken = 0;
    queue_pair.attempts = 0;
    queue_pair.has_failed = false;
    queue_pair.attributes = {};
    queue_pair.state = IBV_QPS_RESET;
}

int refusal(const Adapter& adapter, const ibv_qp_init_attr& asked) {
    const Device& is = adapter.is;
    const auto exceeds = [](std::uint32_t value, int limit) {
        return value > static_cast<std::uint32_t>(limit);
    };
    if (asked.qp_type != IBV_QPT_RC || !is.has_rc) return EOPNOTSUPP;
    if (asked.send_cq == nullptr || asked.recv_cq == nullptr || asked.srq != nullptr) return EINVAL;
    if (exceeds(asked.cap.max_send_wr, is.max_qp_wr) ||
        exceeds(asked.cap.max_recv_wr, is.max_qp_wr) ||
        exceeds(asked.cap.max_send_sge, is.max_sge) ||
        exceeds(asked.cap.max_recv_sge, is.max_sge) || asked.cap.max_inline_data > is.max_inline)
        return EINVAL;
    return adapter.queue_pairs.size() < static_cast<std::size_t>(is.max_qp) ? 0 : ENOMEM;
}

}  // namespace
}  // namespace weightlift::fake

using namespace weightlift::fake;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* asked) {
    auto& adapter = adapter_of(domain->context);
    if (const int error = refusal(adapter, *asked)) {
        errno = error;
        return nullptr;
    }
    if (adapter.is.granted_sge > 0)
        asked->cap.max_send_sge =
            std::min(asked->cap.max_send_sge, static_cast<std::uint32_t>(adapter.is.granted_sge));
    auto queue_pair = std::make_unique<QueuePair>();
    queue_pair->context = domain->context;
    queue_pair->qp_context = asked->qp_context;
    queue_pair->pd = domain;
    queue_pair->send_cq = asked->send_cq;
    queue_pair->recv_cq = asked->recv_cq;
    queue_pair->qp_num = adapter.next_queue_pair++;
    queue_pair->state = IBV_QPS_RESET;
    queue_pair->qp_type = asked->qp_type;
    queue_pair->order = world().next_order++;
    queue_pair->signals_all = asked->sq_sig_all != 0;
    queue_pair->granted = asked->cap;
    ++static_cast<Domain*>(domain)->users;
    for (ibv_cq* cq : {asked->send_cq, asked->recv_cq}) ++static_cast<CompletionQueue*>(cq)->users;
    adapter.by_number[queue_pair->qp_num] = queue_pair.get();
    adapter.queue_pairs.push_back(std::move(queue_pair));
    return adapter.queue_pairs.back().get();
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
    auto& queue_pair = *static_cast<QueuePair*>(qp);
    const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attributes->qp_state : qp->state;
    if (!is_allowed(qp->state, to, mask)) return EINVAL;
    if (to == IBV_QPS_RESET) {
        reset(queue_pair);
        return 0;
    }
    if (to == IBV_QPS_ERR) {
        stop(queue_pair);
        return 0;
    }
    ibv_qp_attr now = queue_pair.attributes;
    take(now, *attributes, mask);
    if (!are_legal(adapter_of(qp->context).is, now, mask)) return EINVAL;
    queue_pair.attributes = now;
    qp->state = to;
    return 0;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int /*mask*/, ibv_qp_init_attr* initial) {
    const auto& queue_pair = *static_cast<QueuePair*>(qp);
    *attributes = queue_pair.attributes;
    attributes->qp_state = attributes->cur_qp_state = qp->state;
    attributes->cap = queue_pair.granted;
    *initial = {};
    initial->qp_context = qp->qp_context;
    initial->send_cq = qp->send_cq;
    initial->recv_cq = qp->recv_cq;
    initial->cap = queue_pair.granted;
    initial->qp_type = qp->qp_type;
    initial->sq_sig_all = queue_pair.signals_all ? 1 : 0;
    return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
    auto& queue_pair = *static_cast<QueuePair*>(qp);
    auto& adapter = adapter_of(qp->context);
    stop(queue_pair);
    forget_work(queue_pair);
    forget_events(*static_cast<Context*>(qp->context), qp);
    if (!world().scenario.keeps_completions) drop_completions(queue_pair);
    for (ibv_cq* cq : {qp->send_cq, qp->recv_cq}) --static_cast<CompletionQueue*>(cq)->users;
    --static_cast<Domain*>(qp->pd)->users;
    adapter.by_number.erase(qp->qp_num);
    release(adapter.queue_pairs, qp);
    return 0;
}

}  // extern "C"
