#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>

#include "resources.hpp"

namespace weightlift::transport::verbs {
namespace {

struct ListCloser {
    void operator()(ibv_device** list) const { ibv_free_device_list(list); }
};

ContextPtr open(const std::string& name) {
    int count = 0;
    const std::unique_ptr<ibv_device*, ListCloser> list(ibv_get_device_list(&count));
    for (int i = 0; list && i < count; ++i) {
        ibv_device* const device = list.get()[i];
        if (name != ibv_get_device_name(device)) continue;
        ContextPtr context(ibv_open_device(device));
        if (!context) throw system_error("cannot open " + name, errno);
        return context;
    }
    throw TransportError(fmt::format("verbs: device {} is gone", name));
}

/// Whether an asynchronous event means that the run cannot be right any more.
bool is_fatal(ibv_event_type type) {
    switch (type) {
        case IBV_EVENT_CQ_ERR:
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_PATH_MIG_ERR:
        case IBV_EVENT_DEVICE_FATAL:
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_SRQ_ERR:
        case IBV_EVENT_WQ_FATAL: return true;
        default: return false;
    }
}

bool is_of_pair(ibv_event_type type) {
    return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
           type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_PATH_MIG_ERR;
}

}  // namespace

TransportError system_error(const std::string& what, int error) {
    return TransportError(fmt::format("verbs: {}: {}", what, std::strerror(error)));
}

Device::Device(Nic nic, const NicPort& port, GidChoice gid, bool is_spare)
    : nic_(std::move(nic)),
      port_(port),
      gid_(std::move(gid)),
      is_spare_(is_spare),
      context_(open(nic_.name)) {
    // Events are looked for between pushes' polls, never waited for.
    const int flags = ::fcntl(context_->async_fd, F_GETFL);
    if (flags < 0 || ::fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
        throw system_error("cannot make the events of " + label() + " non-blocking", errno);
    domain_.reset(ibv_alloc_pd(context_.get()));
    if (!domain_) throw system_error("no protection domain on " + label(), errno);
}

std::string Device::label() const { return fmt::format("{}:{}", nic_.name, port_.number); }

Rail Device::rail() const {
    int prefix = -1;
    for (const GidEntry& entry : port_.gids)
        if (entry.index == gid_.index) prefix = entry.prefix_length;
    return {.link = port_.link,
            .gid = gid_.gid,
            .prefix_length = prefix,
            .lid = port_.lid,
            .mtu = port_.mtu,
            .rate = port_.rate,
            .is_spare = is_spare_};
}

void Device::check_events(const std::function<std::string(const ibv_qp*)>& who) const {
    ibv_async_event event{};
    while (ibv_get_async_event(context_.get(), &event) == 0) {
        ibv_ack_async_event(&event);
        const bool is_other_port =
            event.event_type == IBV_EVENT_PORT_ERR && event.element.port_num != port_.number;
        if (is_fatal(event.event_type) && !is_other_port)
            throw TransportError(fmt::format(
                "verbs: {} reports: {}{}", label(), ibv_event_type_str(event.event_type),
                who(is_of_pair(event.event_type) ? event.element.qp : nullptr)));
    }
}

ibv_cq* Device::reserve(int entries, int expected) {
    if (room_ < entries) {
        const int most = nic_.limits.cqe > 0 ? nic_.limits.cqe : entries;
        const int size = std::min(most, std::max(entries, expected));
        if (size < entries)
            throw TransportError(
                fmt::format("verbs: a queue pair needs {} completion entries, but {} allows {} "
                            "(a smaller --depth)",
                            entries, label(), most));
        QueuePtr queue(ibv_create_cq(context_.get(), size, nullptr, nullptr, 0));
        if (!queue)
            throw system_error(
                fmt::format("no completion queue of {} entries on {}", size, label()), errno);
        room_ = size;
        queues_.push_back(std::move(queue));
    }
    room_ -= entries;
    return queues_.back().get();
}

void Device::drop_queues() {
    queues_.clear();
    room_ = 0;
}

}  // namespace weightlift::transport::verbs
