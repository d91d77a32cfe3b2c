#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include "netdevs.hpp"

namespace weightlift::transport {
namespace {

struct Close {
    void operator()(ibv_context* context) const { ibv_close_device(context); }
};
using Opened = std::unique_ptr<ibv_context, Close>;

LinkLayer link_of(const ibv_port_attr& port) {
    switch (port.link_layer) {
        case IBV_LINK_LAYER_ETHERNET: return LinkLayer::Ethernet;
        case IBV_LINK_LAYER_INFINIBAND: return LinkLayer::InfiniBand;
        default: return LinkLayer::Unknown;
    }
}

std::string state_of(const ibv_port_attr& port) {
    switch (port.state) {
        case IBV_PORT_NOP: return "NOP";
        case IBV_PORT_DOWN: return "DOWN";
        case IBV_PORT_INIT: return "INIT";
        case IBV_PORT_ARMED: return "ARMED";
        case IBV_PORT_ACTIVE: return "ACTIVE";
        case IBV_PORT_ACTIVE_DEFER: return "ACTIVE_DEFER";
    }
    return fmt::format("in state {}", static_cast<int>(port.state));
}

/// XDR does not fit the old field; newer libraries have a wider one.
template <class Port>
unsigned speed_of(const Port& port) {
    if constexpr (requires { port.active_speed_ex; })
        if (port.active_speed_ex != 0) return port.active_speed_ex;
    return port.active_speed;
}

GidType type_of(const ibv_gid_entry& entry) {
    switch (entry.gid_type) {
        case IBV_GID_TYPE_ROCE_V1: return GidType::RoceV1;
        case IBV_GID_TYPE_ROCE_V2: return GidType::RoceV2;
        default: return GidType::InfiniBand;
    }
}

/// The device's whole table, of all ports, without zero entries.
std::vector<ibv_gid_entry> gid_table(ibv_context* context, int entries) {
    std::vector<ibv_gid_entry> table(static_cast<std::size_t>(std::max(entries, 0)));
    const auto found = ibv_query_gid_table(context, table.data(), table.size(), 0);
    if (found < 0)
        throw std::system_error(static_cast<int>(-found), std::system_category(),
                                "ibv_query_gid_table");
    table.resize(static_cast<std::size_t>(found));
    return table;
}

NicPort read_port(const ibv_port_attr& port, int number, std::span<const ibv_gid_entry> table,
                  std::span<const Netdev> netdevs) {
    NicPort out;
    out.number = number;
    out.is_active = port.state == IBV_PORT_ACTIVE;
    out.state = state_of(port);
    out.link = link_of(port);
    out.lid = port.lid;
    out.mtu = 128 << port.active_mtu;
    out.rate = port_rate(out.link, port.active_width, speed_of(port));
    out.needs_grh = (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
    for (const ibv_gid_entry& raw : table) {
        if (raw.port_num != static_cast<std::uint32_t>(number)) continue;
        GidEntry entry;
        entry.index = static_cast<int>(raw.gid_index);
        std::copy(std::begin(raw.gid.raw), std::end(raw.gid.raw), entry.gid.begin());
        if (entry.gid == Gid{}) continue;
        entry.type = type_of(raw);
        const Netdev* const owner = find_owner(entry, raw.ndev_ifindex, netdevs);
        if (owner != nullptr && out.netdev_mtu < 0 && out.link == LinkLayer::Ethernet)
            out.netdev_mtu = owner->mtu;
        out.gids.push_back(std::move(entry));
    }
    std::sort(out.gids.begin(), out.gids.end(),
              [](const auto& a, const auto& b) { return a.index < b.index; });
    return out;
}

void read_place(Nic& nic, const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code error;
    const std::string device = fs::read_symlink(folder + "/device", error).filename().string();
    // Soft-RoCE has no such link, or one to the network interface's device.
    static const std::regex kPci("[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]");
    if (error || !std::regex_match(device, kPci)) return;
    nic.pci = device;
    std::ifstream(folder + "/device/numa_node") >> nic.numa_node;
}

void read_device(Nic& nic, ibv_device* device, std::span<const Netdev> netdevs) {
    const Opened context(ibv_open_device(device));
    if (!context) throw std::system_error(errno, std::system_category(), "ibv_open_device");
    ibv_device_attr attributes{};
    if (const int rc = ibv_query_device(context.get(), &attributes); rc != 0)
        throw std::system_error(rc, std::system_category(), "ibv_query_device");
    nic.firmware = attributes.fw_ver;
    nic.vendor_id = attributes.vendor_id;
    nic.part_id = attributes.vendor_part_id;
    nic.limits = {attributes.max_qp,     attributes.max_qp_wr, attributes.max_sge,
                  attributes.max_cq,     attributes.max_cqe,   attributes.max_mr,
                  attributes.max_mr_size};
    std::vector<ibv_port_attr> ports(attributes.phys_port_cnt);
    int gids = 0;
    for (std::size_t i = 0; i < ports.size(); ++i) {
        if (const int rc =
                ibv_query_port(context.get(), static_cast<std::uint8_t>(i + 1), &ports[i]);
            rc != 0)
            throw std::system_error(rc, std::system_category(),
                                    fmt::format("ibv_query_port {}", i + 1));
        gids += ports[i].gid_tbl_len;
    }
    const auto table = gid_table(context.get(), gids);
    for (std::size_t i = 0; i < ports.size(); ++i)
        nic.ports.push_back(read_port(ports[i], static_cast<int>(i + 1), table, netdevs));
}

}  // namespace

std::vector<Nic> list_nics() {
    int count = 0;
    const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> devices(ibv_get_device_list(&count),
                                                                       ibv_free_device_list);
    if (!devices) return {};
    const auto netdevs = list_netdevs();
    std::vector<Nic> nics;
    for (int i = 0; i < count; ++i) {
        ibv_device* const device = devices.get()[i];
        Nic nic;
        nic.name = ibv_get_device_name(device);
        nic.has_rc = device->transport_type == IBV_TRANSPORT_IB ||
                     device->transport_type == IBV_TRANSPORT_IWARP;
        nic.is_iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
        read_place(nic, device->ibdev_path);
        try {
            read_device(nic, device, netdevs);
        } catch (const std::system_error& error) {
            nic.problem = error.what();
        }
        nics.push_back(std::move(nic));
    }
    // mlx5_2 before mlx5_10.
    std::sort(nics.begin(), nics.end(), [](const Nic& a, const Nic& b) {
        return strverscmp(a.name.c_str(), b.name.c_str()) < 0;
    });
    return nics;
}

}  // namespace weightlift::transport
