// Devices, contexts, ports and their tables.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/eventfd.h>
#include <unistd.h>

#include "world.hpp"

#undef ibv_query_port

namespace weightlift::fake {
int poll_queue(ibv_cq* queue, int most, ibv_wc* wc);
int ask_for_event(ibv_cq* queue, int only_solicited);
int post_send(ibv_qp* queue_pair, ibv_send_wr* request, ibv_send_wr** bad);
int post_receive(ibv_qp* queue_pair, ibv_recv_wr* request, ibv_recv_wr** bad);

namespace {

Port* port_of(ibv_context* context, std::uint64_t number) {
    auto& ports = adapter_of(context).is.ports;
    return number >= 1 && number <= ports.size() ? &ports[number - 1] : nullptr;
}

bool is_zero(const Gid& gid) {
    return std::all_of(gid.bytes.begin(), gid.bytes.end(), [](auto byte) { return byte == 0; });
}

ibv_gid_entry entry_of(const Gid& gid, std::uint32_t port, std::uint32_t index) {
    ibv_gid_entry entry{};
    std::copy(gid.bytes.begin(), gid.bytes.end(), entry.gid.raw);
    entry.gid_index = index;
    entry.port_num = port;
    entry.gid_type = static_cast<std::uint32_t>(gid.type);
    entry.ndev_ifindex = gid.interface;
    return entry;
}

}  // namespace
}  // namespace weightlift::fake

using namespace weightlift::fake;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
    const auto& adapters = world().adapters;
    auto** list = new ibv_device*[adapters.size() + 1];
    for (std::size_t i = 0; i < adapters.size(); ++i) list[i] = adapters[i].get();
    list[adapters.size()] = nullptr;
    if (count != nullptr) *count = static_cast<int>(adapters.size());
    ++world().lists;
    return list;
}

void ibv_free_device_list(ibv_device** list) {
    --world().lists;
    delete[] list;
}

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

int ibv_get_device_index(ibv_device* device) {
    const auto& adapters = world().adapters;
    const auto at = std::find_if(adapters.begin(), adapters.end(),
                                 [&](const auto& adapter) { return adapter.get() == device; });
    return static_cast<int>(at - adapters.begin());
}

__be64 ibv_get_device_guid(ibv_device* device) {
    return 1 + static_cast<__be64>(ibv_get_device_index(device));
}

ibv_context* ibv_open_device(ibv_device* device) {
    auto& adapter = *static_cast<Adapter*>(device);
    auto context = std::make_unique<Context>();
    context->adapter = &adapter;
    context->device = device;
    context->ops.poll_cq = poll_queue;
    context->ops.req_notify_cq = ask_for_event;
    context->ops.post_send = post_send;
    context->ops.post_recv = post_receive;
    context->cmd_fd = -1;
    context->async_fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    context->num_comp_vectors = 1;
    context->abi_compat = nullptr;  // no verbs_context: inline functions take the plain calls
    adapter.contexts.push_back(std::move(context));
    return adapter.contexts.back().get();
}

int ibv_close_device(ibv_context* context) {
    auto& adapter = adapter_of(context);
    const auto has = [&](const auto& list) {
        return std::any_of(list.begin(), list.end(),
                           [&](const auto& object) { return object->context == context; });
    };
    if (has(adapter.domains) || has(adapter.channels) || has(adapter.completion_queues)) {
        misuse("device " + adapter.is.name + " closed before its objects");
        return EBUSY;
    }
    ::close(context->async_fd);
    release(adapter.contexts, context);
    return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
    const Device& is = adapter_of(context).is;
    *attributes = {};
    std::strcpy(attributes->fw_ver, "1.0.fake");
    attributes->node_guid = ibv_get_device_guid(context->device);
    attributes->max_mr_size = is.max_mr_size;
    attributes->page_size_cap = 0xfffff000;
    attributes->vendor_id = is.vendor;
    attributes->vendor_part_id = is.part;
    attributes->max_qp = is.max_qp;
    attributes->max_qp_wr = is.max_qp_wr;
    attributes->max_sge = is.max_sge;
    attributes->max_sge_rd = is.max_sge;
    attributes->max_cq = is.max_cq;
    attributes->max_cqe = is.max_cqe;
    attributes->max_mr = is.max_mr;
    attributes->max_pd = 1024;
    attributes->max_qp_rd_atom = is.max_rd_atomic;
    attributes->max_qp_init_rd_atom = is.max_rd_atomic;
    attributes->atomic_cap = IBV_ATOMIC_NONE;
    attributes->max_pkeys = 1;
    attributes->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN;
    attributes->phys_port_cnt = static_cast<std::uint8_t>(is.ports.size());
    return 0;
}

/// Reached through the inline ___ibv_query_port, whose buffer is a whole ibv_port_attr.
int ibv_query_port(ibv_context* context, std::uint8_t number, _compat_ibv_port_attr* old) {
    const Port* port = port_of(context, number);
    if (port == nullptr) return EINVAL;
    auto& attributes = *reinterpret_cast<ibv_port_attr*>(old);
    attributes = {};
    attributes.state = port->state;
    attributes.max_mtu = port->max_mtu;
    attributes.active_mtu = port->active_mtu;
    attributes.gid_tbl_len = static_cast<int>(port->gids.size());
    attributes.max_msg_sz = port->max_message;
    attributes.pkey_tbl_len = static_cast<std::uint16_t>(port->pkeys.size());
    attributes.lid = port->lid;
    attributes.sm_lid = port->lid == 0 ? 0 : 1;
    attributes.active_width = port->width;
    attributes.active_speed = port->speed;
    attributes.phys_state = port->state == IBV_PORT_ACTIVE ? 5 : 3;
    attributes.link_layer = port->link_layer;
    attributes.flags = port->needs_grh ? IBV_QPF_GRH_REQUIRED : 0;
    return 0;
}

int ibv_query_gid(ibv_context* context, std::uint8_t number, int index, ibv_gid* gid) {
    const Port* port = port_of(context, number);
    if (port == nullptr || index < 0 || static_cast<std::size_t>(index) >= port->gids.size()) {
        errno = EINVAL;
        return -1;
    }
    const auto& bytes = port->gids[static_cast<std::size_t>(index)].bytes;
    std::copy(bytes.begin(), bytes.end(), gid->raw);
    return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t number, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) {
    const Port* port = port_of(context, number);
    if (port == nullptr || flags != 0 || entry_size != sizeof *entry || index >= port->gids.size())
        return EINVAL;
    if (is_zero(port->gids[index])) return ENODATA;
    *entry = entry_of(port->gids[index], number, index);
    return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                             std::uint32_t flags, std::size_t entry_size) {
    if (flags != 0 || entry_size != sizeof *entries) return -EINVAL;
    std::size_t found = 0;
    const auto& ports = adapter_of(context).is.ports;
    for (std::size_t p = 0; p < ports.size(); ++p) {
        for (std::size_t i = 0; i < ports[p].gids.size(); ++i) {
            if (is_zero(ports[p].gids[i])) continue;
            if (found == most) return -EINVAL;
            entries[found++] = entry_of(ports[p].gids[i], static_cast<std::uint32_t>(p + 1),
                                        static_cast<std::uint32_t>(i));
        }
    }
    return static_cast<ssize_t>(found);
}

int ibv_query_pkey(ibv_context* context, std::uint8_t number, int index, __be16* pkey) {
    const Port* port = port_of(context, number);
    if (port == nullptr || index < 0 || static_cast<std::size_t>(index) >= port->pkeys.size()) {
        errno = EINVAL;
        return -1;
    }
    *pkey = __builtin_bswap16(port->pkeys[static_cast<std::size_t>(index)]);
    return 0;
}

int ibv_fork_init() { return 0; }

ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

}  // extern "C"
