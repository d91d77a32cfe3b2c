// The order in which things happen.
#include <algorithm>

#include "world.hpp"

namespace weightlift::fake {
namespace {

struct Place {
    Adapter* adapter = nullptr;
    const Port* port = nullptr;
};

bool has_gid(const Port& port, const ibv_gid& gid) {
    return std::any_of(port.gids.begin(), port.gids.end(), [&](const Gid& own) {
        return std::equal(own.bytes.begin(), own.bytes.end(), gid.raw);
    });
}

/// The active port to which packets from `from` with this address go.
bool leads_to(const Port& from, const ibv_ah_attr& address, const Port& port) {
    if (port.link_layer != from.link_layer || port.state != IBV_PORT_ACTIVE) return false;
    if (address.is_global != 0) return has_gid(port, address.grh.dgid);
    const auto subnet = [](const Port& of) {
        return of.gids.empty() ? std::vector<std::uint8_t>{}
                               : std::vector<std::uint8_t>{of.gids[0].bytes.begin(),
                                                           of.gids[0].bytes.begin() + 8};
    };
    return port.lid == address.dlid && subnet(port) == subnet(from);
}

const Port& port_of(const QueuePair& queue_pair) {
    return adapter_of(queue_pair.context).is.ports[queue_pair.attributes.port_num - 1U];
}

ibv_gid_type gid_type_of(const QueuePair& queue_pair) {
    const auto& address = queue_pair.attributes.ah_attr;
    return address.is_global == 0 ? IBV_GID_TYPE_IB
                                  : port_of(queue_pair).gids[address.grh.sgid_index].type;
}

bool fit_together(const QueuePair& from, const QueuePair& to) {
    const auto& a = from.attributes;
    const auto& b = to.attributes;
    const auto pkey = [](const QueuePair& of) {
        return port_of(of).pkeys[of.attributes.pkey_index] & 0x7fff;
    };
    return (to.state == IBV_QPS_RTR || to.state == IBV_QPS_RTS) && b.dest_qp_num == from.qp_num &&
           a.sq_psn == b.rq_psn && a.path_mtu == b.path_mtu && pkey(from) == pkey(to) &&
           gid_type_of(from) == gid_type_of(to) &&
           leads_to(port_of(from), a.ah_attr, port_of(to)) &&
           leads_to(port_of(to), b.ah_attr, port_of(from));
}

enum class Action : std::uint8_t { Execute, Acknowledge, Flush, Place };
struct Step {
    QueuePair* queue_pair = nullptr;
    Action action = Action::Execute;
};

void list_steps(QueuePair& of, std::vector<Step>& steps) {
    if (of.state == IBV_QPS_ERR) {
        if (!of.executed.empty() || !of.posted.empty() || !of.receives.empty())
            steps.push_back({&of, Action::Flush});
        return;
    }
    if (!of.executed.empty()) steps.push_back({&of, Action::Acknowledge});
    if (!of.posted.empty() && !of.has_failed) steps.push_back({&of, Action::Execute});
    if (!of.held.empty() && world().scenario.placement == Placement::AfterAcknowledgement)
        steps.push_back({&of, Action::Place});
}

void complete_request(QueuePair& of, const Request& request, ibv_wc_status status) {
    Completion completion;
    completion.wc.wr_id = request.wr.wr_id;
    completion.wc.status = status;
    completion.wc.qp_num = of.qp_num;
    completion.retires = request.number + 1;
    if (status == IBV_WC_SUCCESS) {
        const bool is_send =
            request.wr.opcode == IBV_WR_SEND || request.wr.opcode == IBV_WR_SEND_WITH_IMM;
        const bool is_read = request.wr.opcode == IBV_WR_RDMA_READ;
        completion.wc.opcode =
            is_send ? IBV_WC_SEND : (is_read ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
        completion.wc.byte_len = static_cast<std::uint32_t>(request.bytes);
    } else {
        completion.wc.opcode = IBV_WC_DRIVER1;  // not valid, so nobody may read it
        completion.wc.vendor_err = 0x88;
    }
    complete(*static_cast<CompletionQueue*>(of.send_cq), completion, false);
}

void acknowledge(QueuePair& of) {
    const Request request = std::move(of.executed.front());
    of.executed.pop_front();
    world().outstanding -= request.bytes;
    const bool is_wrong = request.status != IBV_WC_SUCCESS;
    if (is_wrong || (request.wr.send_flags & IBV_SEND_SIGNALED) != 0)
        complete_request(of, request, request.status);
    if (is_wrong) stop(of);
}

void flush_receive(QueuePair& of) {
    Completion completion;
    completion.wc.wr_id = of.receives.front().id;
    completion.wc.status = IBV_WC_WR_FLUSH_ERR;
    completion.wc.opcode = IBV_WC_DRIVER1;
    completion.wc.qp_num = of.qp_num;
    completion.is_receive = true;
    of.receives.pop_front();
    complete(*static_cast<CompletionQueue*>(of.recv_cq), completion, false);
}

void flush_one(QueuePair& of) {
    auto& requests = of.executed.empty() ? of.posted : of.executed;
    if (requests.empty() || (!of.receives.empty() && draw(2) == 0)) return flush_receive(of);
    const Request request = std::move(requests.front());
    requests.pop_front();
    world().outstanding -= request.bytes;
    complete_request(of, request, IBV_WC_WR_FLUSH_ERR);
}

bool step() {
    static std::vector<Step> steps;
    steps.clear();
    for (auto& adapter : world().adapters)
        for (auto& queue_pair : adapter->queue_pairs) list_steps(*queue_pair, steps);
    if (steps.empty()) return false;
    const Step next = steps[draw(steps.size())];
    switch (next.action) {
        case Action::Execute: execute(*next.queue_pair); break;
        case Action::Acknowledge: acknowledge(*next.queue_pair); break;
        case Action::Flush: flush_one(*next.queue_pair); break;
        case Action::Place: place_one(*next.queue_pair); break;
    }
    return true;
}

}  // namespace

QueuePair* peer_of(const QueuePair& queue_pair) {
    const Port& from = port_of(queue_pair);
    if (from.state != IBV_PORT_ACTIVE || world().loses_packets) return nullptr;
    for (auto& adapter : world().adapters) {
        const auto found = adapter->by_number.find(queue_pair.attributes.dest_qp_num);
        if (found != adapter->by_number.end() && fit_together(queue_pair, *found->second))
            return found->second;
    }
    return nullptr;
}

void stop(QueuePair& queue_pair) {
    if (queue_pair.state == IBV_QPS_ERR) return;
    queue_pair.state = IBV_QPS_ERR;
    // What precedes a completed receive stays promised; of the rest each byte may have made it.
    place_before(queue_pair, queue_pair.promised);
    while (!queue_pair.held.empty()) {
        if (draw(2) == 0)
            place_one(queue_pair);
        else
            queue_pair.held.pop_back();
    }
}

void advance(std::uint64_t steps) {
    while (steps > 0 && step()) --steps;
}

void let_time_pass() { advance(draw(world().scenario.most_steps + 1ULL)); }

}  // namespace weightlift::fake
