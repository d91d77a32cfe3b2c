#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/error.hpp"

#include "checks.hpp"

namespace weightlift::app::doctor {
namespace {

using transport::LinkLayer;
using transport::Nic;
using transport::NicPort;

const Nic& nic_of(const Facts& f, const Port& port) { return f.nics[port.nic]; }
const NicPort& port_of(const Facts& f, const Port& port) {
    return f.nics[port.nic].ports[port.index];
}
std::optional<int> requested(const Asked& asked) {
    return asked.verbs.gid_index < 0 ? std::nullopt : std::optional(asked.verbs.gid_index);
}
bool is_active(const Facts& f, const Port& port) { return port_of(f, port).is_active; }

/// Groups names by what is said of them: "400 Gbit/s: mlx5_0:1, mlx5_1:1".
class Sayings {
public:
    void add(const std::string& name, const std::string& saying) {
        const auto found = std::find_if(sayings_.begin(), sayings_.end(),
                                        [&](const auto& s) { return s.first == saying; });
        if (found == sayings_.end())
            sayings_.push_back({saying, {name}});
        else
            found->second.push_back(name);
    }
    [[nodiscard]] bool empty() const { return sayings_.empty(); }
    [[nodiscard]] std::string text() const {
        std::vector<std::string> parts;
        for (const auto& [saying, names] : sayings_)
            parts.push_back(fmt::format("{}: {}", fmt::join(names, ", "), saying));
        return fmt::format("{}", fmt::join(parts, "\n"));
    }

private:
    std::vector<std::pair<std::string, std::vector<std::string>>> sayings_;
};

std::string show_gigabits(double rate) {
    return rate > 0 ? fmt::format("{:g} Gbit/s", rate * 8 / 1e9) : "unknown rate";
}

/// Adds one finding of all that is said, if anything is.
void add(std::vector<Finding>& out, const char* check, Verdict verdict, const Sayings& sayings,
         const char* remedy) {
    if (!sayings.empty()) out.push_back({check, verdict, sayings.text(), remedy});
}

void check_device_files(const Facts& f, std::vector<Finding>& out) {
    std::vector<std::string> open;
    Sayings closed;
    for (const DeviceFile& file : f.device_files) {
        if (file.error.empty())
            open.push_back(file.path.substr(file.path.rfind('/') + 1));
        else
            closed.add(file.path, file.error);
    }
    add(out, "/dev/infiniband", Verdict::Fail, closed,
        "give this user read and write permission (udev), in a container also the device cgroup "
        "(--device=/dev/infiniband)");
    if (!open.empty())
        out.push_back({"/dev/infiniband", Verdict::Ok,
                       fmt::format("{} can be opened", fmt::join(open, ", ")), ""});
}

void check_devices(const Facts& f, std::vector<Finding>& out) {
    Sayings read, unread;
    for (const Nic& nic : f.nics) {
        if (nic.problem.empty())
            read.add(nic.name,
                     fmt::format("firmware {}", nic.firmware.empty() ? "unknown" : nic.firmware));
        else
            unread.add(nic.name, nic.problem);
    }
    add(out, "RDMA devices", Verdict::Fail, unread,
        "check dmesg for the driver's messages, and the permissions of /dev/infiniband");
    add(out, "RDMA devices", Verdict::Ok, read, "");
    std::map<std::uint32_t, std::set<std::string>> firmware;
    for (const Nic& nic : f.nics)
        if (nic.problem.empty()) firmware[nic.part_id].insert(nic.firmware);
    for (const auto& [part, versions] : firmware)
        if (versions.size() > 1)
            out.push_back({"RDMA devices", Verdict::Warn,
                           fmt::format("devices of one kind (part {}) have firmware {}", part,
                                       fmt::join(versions, ", ")),
                           "bring all to one firmware (mlxfwmanager, vendor tool)"});
    for (const std::string& name : f.unknown_nics)
        out.push_back({"RDMA devices", Verdict::Fail,
                       fmt::format("--nic {} is not one of them", name),
                       "name a device, \"mlx5_0\", or one port of it, \"mlx5_0:1\""});
}

void check_states(const Facts& f, const Asked& asked, std::vector<Finding>& out) {
    Sayings up, down;
    for (const Port& port : f.ports) {
        const NicPort& p = port_of(f, port);
        if (p.is_active)
            up.add(port.name,
                   fmt::format("{}, {} {}", p.state, to_string(p.link), show_gigabits(p.rate)));
        else
            down.add(port.name, p.state);
    }
    // Ports that nobody wired are common; one that was asked for, or the last one, is needed.
    const bool is_needed = !asked.verbs.nics.empty() || up.empty();
    add(out, "ports", is_needed ? Verdict::Fail : Verdict::Warn, down,
        "check cable, switch port and driver; InfiniBand: a subnet manager must run");
    add(out, "ports", Verdict::Ok, up, "");
}

void check_addresses(const Facts& f, const Asked& asked, std::vector<Finding>& out) {
    Sayings good, local, bad;
    for (const Port& port : f.ports) {
        if (!is_active(f, port)) continue;
        try {
            const auto choice = choose_gid(nic_of(f, port), port_of(f, port), requested(asked));
            const bool is_local = choice.why.find("link-local") != std::string::npos;
            (is_local ? local : good)
                .add(port.name, choice.uses_grh
                                    ? fmt::format("index {}, {}", choice.index, choice.why)
                                    : choice.why);
        } catch (const ConfigError& error) {
            out.push_back({"address", Verdict::Fail, error.what(), ""});
        }
    }
    add(out, "address", Verdict::Ok, good, "");
    add(out, "address", Verdict::Warn, local,
        "link-local addresses pass no router: give the interface an IPv4 address");
}

void check_mtu(const Facts& f, std::vector<Finding>& out) {
    // 4096 bytes of payload and at most 104 of headers.
    constexpr int kFull = 4200;
    Sayings full, small;
    for (const Port& port : f.ports) {
        const NicPort& p = port_of(f, port);
        if (!p.is_active) continue;
        if (p.link == LinkLayer::Ethernet && p.netdev_mtu >= 0)
            (p.netdev_mtu < kFull ? small : full)
                .add(port.name, fmt::format("path {}, interface {}", p.mtu, p.netdev_mtu));
        else
            full.add(port.name, fmt::format("path {}", p.mtu));
    }
    add(out, "MTU", Verdict::Ok, full, "");
    add(out, "MTU", Verdict::Warn, small,
        "RoCE packets of 4096 bytes need an interface MTU of 4200 or more, on the switches too: ip "
        "link set INTERFACE mtu 9000");
}

void check_errors(const Facts& f, std::vector<Finding>& out) {
    Sayings counted;
    std::vector<std::string> clean, uncounted;
    for (const Port& port : f.ports) {
        if (!is_active(f, port)) continue;
        if (!port.has_counters) uncounted.push_back(port.name);
        if (port.has_counters && port.errors.empty()) clean.push_back(port.name);
        std::string text;
        for (const auto& [name, value] : port.errors)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
        if (!text.empty()) counted.add(port.name, text);
    }
    add(out, "error counters", Verdict::Warn, counted,
        "counted since the driver was loaded; if they grow during a push: cable, or congestion "
        "without PFC and ECN");
    if (!clean.empty())
        out.push_back({"error counters", Verdict::Ok,
                       fmt::format("{}: all zero", fmt::join(clean, ", ")), ""});
    if (!uncounted.empty())
        out.push_back({"error counters", Verdict::Skip,
                       fmt::format("{}: the driver keeps none", fmt::join(uncounted, ", ")), ""});
}

void check_distance(const Facts& f, std::vector<Finding>& out) {
    const Port* best = nullptr;
    for (const Port& port : f.ports)
        if (is_active(f, port) &&
            (best == nullptr || f.distances[port.nic] < f.distances[best->nic]))
            best = &port;
    if (best == nullptr) return;
    const Nic& nic = nic_of(f, *best);
    const int nearest = f.distances[best->nic];
    if (nic.pci.empty())
        out.push_back({"NIC and memory", Verdict::Skip, nic.name + " is not a PCI device", ""});
    else if (nearest == 0)
        out.push_back({"NIC and memory", Verdict::Ok, "on one NUMA node", ""});
    else
        out.push_back(
            {"NIC and memory", Verdict::Warn,
             fmt::format("the nearest NIC, {}, is on another NUMA node{}", nic.name,
                         nearest > 1 ? " of another package" : ""),
             fmt::format("bind ranks to the nodes of NICs (mpirun --map-by numa --bind-to "
                         "numa, numactl -N); {} is at node {}",
                         nic.name, nic.numa_node)});
}

void check_qos(const Facts& f, std::vector<Finding>& out) {
    Sayings known, unknown;
    for (const Port& port : f.ports) {
        if (!is_active(f, port) || port_of(f, port).link != LinkLayer::Ethernet) continue;
        std::string text;
        for (const auto& [name, value] : port.qos)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
        if (text.empty())
            unknown.add(port.name, "not shown in /sys");
        else
            known.add(port.name, text);
    }
    add(out, "DSCP, PFC, ECN", Verdict::Ok, known, "");
    add(out, "DSCP, PFC, ECN", Verdict::Skip, unknown,
        "dcb pfc show dev INTERFACE, or mlnx_qos -i INTERFACE");
}

void check_relaxed_ordering(const Facts& f, std::vector<Finding>& out) {
    std::vector<std::string> on, off, unreadable;
    for (const auto& [name, is_on] : f.relaxed_ordering)
        (!is_on ? unreadable : *is_on ? on : off).push_back(name);
    if (!off.empty())
        out.push_back(
            {"relaxed ordering", Verdict::Warn, fmt::format("{}: off in PCI", fmt::join(off, ", ")),
             "turn it on in the BIOS (PCIe relaxed ordering); writes are slower without"});
    if (!on.empty())
        out.push_back({"relaxed ordering", Verdict::Ok,
                       fmt::format("{}: on in PCI", fmt::join(on, ", ")), ""});
    if (!unreadable.empty())
        out.push_back({"relaxed ordering", Verdict::Skip,
                       fmt::format("{}: PCI configuration is readable by root only",
                                   fmt::join(unreadable, ", ")),
                       "sudo lspci -vvv | grep RlxdOrd"});
}

std::vector<Trait> nic_traits(const Facts& f, const Asked& asked) {
    std::set<std::string> firmware, mtus, kinds;
    std::map<double, int> rates;
    for (const Nic& nic : f.nics)
        firmware.insert(fmt::format("part {} {}", nic.part_id, nic.firmware));
    for (const Port& port : f.ports) {
        const NicPort& p = port_of(f, port);
        if (!p.is_active) continue;
        mtus.insert(std::to_string(p.mtu));
        ++rates[p.rate];
        try {
            const auto choice = choose_gid(nic_of(f, port), p, requested(asked));
            kinds.insert(p.link == LinkLayer::InfiniBand                ? "LID"
                         : choice.why.find("IPv4") != std::string::npos ? "IPv4"
                                                                        : "IPv6");
        } catch (const ConfigError&) {
            kinds.insert("none");
        }
    }
    std::vector<std::string> speeds;
    for (const auto& [rate, count] : rates)
        speeds.push_back(fmt::format("{} x {}", count, show_gigabits(rate)));
    return {{"NIC firmware", fmt::format("{}", fmt::join(firmware, ", "))},
            {"NIC rate", fmt::format("{}", fmt::join(speeds, ", "))},
            {"path MTU", fmt::format("{}", fmt::join(mtus, ", "))},
            {"address kind", fmt::format("{}", fmt::join(kinds, ", "))}};
}

}  // namespace

std::vector<Finding> check_nics(const Facts& f, const Asked& asked) {
    if (!asked.uses_rdma())
        return {{"RDMA devices", Verdict::Skip,
                 fmt::format("not used by --transport {}", asked.transport), ""}};
    if (f.nics.empty())
        return {{"RDMA devices", asked.needs_rdma() ? Verdict::Fail : Verdict::Skip,
                 "none: " + f.why_no_nics, ""}};
    std::vector<Finding> out;
    check_device_files(f, out);
    check_devices(f, out);
    check_states(f, asked, out);
    check_addresses(f, asked, out);
    check_mtu(f, out);
    check_errors(f, out);
    check_distance(f, out);
    check_qos(f, out);
    check_relaxed_ordering(f, out);
    return out;
}

RankReport check_rank(const Facts& facts, const Asked& asked) {
    RankReport report;
    report.host = facts.host;
    for (auto&& part : {check_machine(facts, asked), check_nics(facts, asked), check_gpus(facts)})
        report.findings.insert(report.findings.end(), part.begin(), part.end());
    report.traits = {
        {"tool version", facts.version},
        {"binary", facts.binary},
        {"MPI library", facts.mpi},
        {"locked memory", !facts.locked_memory                 ? "unknown"
                          : *facts.locked_memory == kUnlimited ? "unlimited"
                                                               : show_binary(*facts.locked_memory)},
        {"RDMA devices", std::to_string(facts.nics.size())}};
    if (!facts.nics.empty() && asked.uses_rdma())
        for (Trait& trait : nic_traits(facts, asked)) report.traits.push_back(std::move(trait));
    return report;
}

std::vector<std::string> usable_rails(const Facts& facts, const Asked& asked) {
    std::vector<std::string> rails;
    for (const Port& port : facts.ports) {
        try {
            static_cast<void>(
                choose_gid(nic_of(facts, port), port_of(facts, port), requested(asked)));
            rails.push_back(port.name);
        } catch (const ConfigError&) {
            // The check of addresses says why.
        }
    }
    return rails;
}

}  // namespace weightlift::app::doctor
