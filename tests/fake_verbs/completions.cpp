// Completion queues, their channels, and asynchronous events.
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "world.hpp"

namespace weightlift::fake {
namespace {

void signal(int fd) {
    const std::uint64_t one = 1;
    if (::write(fd, &one, sizeof one) != sizeof one) misuse("an eventfd took no event");
}

void unsignal(int fd) {
    std::uint64_t one = 0;
    if (::read(fd, &one, sizeof one) != sizeof one) misuse("an eventfd had no event");
}

bool blocks(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

/// What a program gets that waits where nothing can come: a real one waits for ever.
int nothing_to_wait_for(int fd, const char* call) {
    if (blocks(fd)) misuse(std::string(call) + " blocks for ever");
    errno = EAGAIN;
    return -1;
}

void* element_of(const ibv_async_event& event) {
    switch (event.event_type) {
        case IBV_EVENT_CQ_ERR: return event.element.cq;
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_ACCESS_ERR: return event.element.qp;
        default: return nullptr;
    }
}

}  // namespace

void raise_event(Context& context, const ibv_async_event& event) {
    context.events.push_back(event);
    signal(context.async_fd);
}

/// Before `element` is destroyed.
void forget_events(Context& context, void* element) {
    if (context.unacknowledged[element] != 0)
        misuse("an object is destroyed before its asynchronous events are acknowledged");
    context.unacknowledged.erase(element);
    const auto forgotten = std::erase_if(
        context.events, [&](const auto& event) { return element_of(event) == element; });
    for (std::size_t i = 0; i < forgotten; ++i) unsignal(context.async_fd);
}

void kill_queue(CompletionQueue& queue) {
    if (queue.is_dead) return;
    queue.is_dead = true;
    queue.entries.clear();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = &queue;
    raise_event(*static_cast<Context*>(queue.context), event);
    for (auto& queue_pair : adapter_of(queue.context).queue_pairs)
        if (queue_pair->send_cq == &queue || queue_pair->recv_cq == &queue) stop(*queue_pair);
}

void complete(CompletionQueue& queue, const Completion& completion, bool is_solicited) {
    if (queue.is_dead) return;
    if (queue.entries.size() >= static_cast<std::size_t>(queue.cqe)) return kill_queue(queue);
    queue.entries.push_back(completion);
    const bool wakes =
        queue.armed == Armed::Any || (queue.armed == Armed::Solicited &&
                                      (is_solicited || completion.wc.status != IBV_WC_SUCCESS));
    if (!wakes || queue.channel == nullptr) return;
    queue.armed = Armed::No;
    static_cast<Channel*>(queue.channel)->events.push_back(&queue);
    signal(queue.channel->fd);
}

int poll_queue(ibv_cq* cq, int most, ibv_wc* wc) {
    let_time_pass();
    auto& queue = *static_cast<CompletionQueue*>(cq);
    auto& adapter = adapter_of(cq->context);
    int polled = 0;
    for (; polled < most && !queue.entries.empty(); ++polled) {
        const Completion completion = queue.entries.front();
        queue.entries.pop_front();
        wc[polled] = completion.wc;
        const auto found = adapter.by_number.find(completion.wc.qp_num);
        if (found == adapter.by_number.end()) continue;
        QueuePair& queue_pair = *found->second;
        if (completion.is_receive) {
            --queue_pair.receives_taken;
            place_before(queue_pair, completion.places);
            continue;
        }
        auto& slots = queue_pair.send_slots;
        while (!slots.empty() && slots.front().number < completion.retires) {
            queue_pair.slots_taken -= slots.front().slots;
            slots.pop_front();
        }
    }
    return polled;
}

int ask_for_event(ibv_cq* cq, int only_solicited) {
    static_cast<CompletionQueue*>(cq)->armed = only_solicited != 0 ? Armed::Solicited : Armed::Any;
    let_time_pass();
    return 0;
}

}  // namespace weightlift::fake

using namespace weightlift::fake;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
    auto channel = std::make_unique<Channel>();
    channel->context = context;
    channel->fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    auto& channels = adapter_of(context).channels;
    channels.push_back(std::move(channel));
    return channels.back().get();
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
    if (channel->refcnt != 0) return EBUSY;
    ::close(channel->fd);
    release(adapter_of(channel->context).channels, channel);
    return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int vector) {
    auto& adapter = adapter_of(context);
    auto& queues = adapter.completion_queues;
    const bool is_legal =
        cqe >= 1 && cqe <= adapter.is.max_cqe && vector >= 0 && vector < context->num_comp_vectors;
    if (!is_legal || queues.size() >= static_cast<std::size_t>(adapter.is.max_cq)) {
        errno = is_legal ? ENOMEM : EINVAL;
        return nullptr;
    }
    auto queue = std::make_unique<CompletionQueue>();
    queue->context = context;
    queue->channel = channel;
    queue->cq_context = cq_context;
    queue->cqe = cqe;
    if (channel != nullptr) ++channel->refcnt;
    queues.push_back(std::move(queue));
    return queues.back().get();
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
    const auto& queue = *static_cast<CompletionQueue*>(cq);
    if (cqe < 1 || cqe > adapter_of(cq->context).is.max_cqe ||
        static_cast<std::size_t>(cqe) < queue.entries.size())
        return EINVAL;
    cq->cqe = cqe;
    return 0;
}

int ibv_destroy_cq(ibv_cq* cq) {
    auto& queue = *static_cast<CompletionQueue*>(cq);
    if (queue.users != 0) return EBUSY;
    if (queue.unacknowledged != 0)
        misuse("a completion queue is destroyed before its events are acknowledged");
    forget_events(*static_cast<Context*>(cq->context), &queue);
    if (auto* channel = static_cast<Channel*>(cq->channel)) {
        const auto forgotten = std::erase(channel->events, &queue);
        for (std::size_t i = 0; i < forgotten; ++i) unsignal(channel->fd);
        --channel->refcnt;
    }
    release(adapter_of(cq->context).completion_queues, cq);
    return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
    auto& events = static_cast<Channel*>(channel)->events;
    let_time_pass();
    for (int patience = 10000; events.empty() && blocks(channel->fd) && patience > 0; --patience)
        let_time_pass();
    if (events.empty()) return nothing_to_wait_for(channel->fd, "ibv_get_cq_event");
    unsignal(channel->fd);
    CompletionQueue* queue = events.front();
    events.pop_front();
    ++queue->unacknowledged;
    *cq = queue;
    *cq_context = queue->cq_context;
    return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
    auto& queue = *static_cast<CompletionQueue*>(cq);
    if (count > queue.unacknowledged) misuse("more events acknowledged than taken");
    queue.unacknowledged -= std::min(count, queue.unacknowledged);
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
    auto& own = *static_cast<Context*>(context);
    if (own.events.empty()) return nothing_to_wait_for(context->async_fd, "ibv_get_async_event");
    unsignal(context->async_fd);
    *event = own.events.front();
    own.events.pop_front();
    if (void* element = element_of(*event)) ++own.unacknowledged[element];
    return 0;
}

void ibv_ack_async_event(ibv_async_event* event) {
    void* element = element_of(*event);
    if (element == nullptr) return;
    ibv_context* context = event->event_type == IBV_EVENT_CQ_ERR ? event->element.cq->context
                                                                 : event->element.qp->context;
    --static_cast<Context*>(context)->unacknowledged[element];
}

}  // extern "C"
