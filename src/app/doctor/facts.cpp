#include "facts.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "weightlift/base/error.hpp"
#include "weightlift/base/hash.hpp"
#include "weightlift/mpi/communicator.hpp"

#include "../commands.hpp"
#include "../run_info.hpp"
#include "read_files.hpp"

namespace weightlift::app::doctor {
namespace {

namespace fs = std::filesystem;

/// Soft limit of a line of /proc/self/limits.
std::optional<std::uint64_t> limit_of(const std::string& root, std::string_view name) {
    std::ifstream file(root + "/proc/self/limits");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(name)) continue;
        std::istringstream rest(line.substr(name.size()));
        std::string soft;
        rest >> soft;
        if (soft == "unlimited") return kUnlimited;
        return number_of(soft);
    }
    return std::nullopt;
}

bool has_capability(const std::string& root, unsigned number) {
    std::ifstream file(root + "/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("CapEff:"))
            return (std::strtoull(line.c_str() + 7, nullptr, 16) >> number & 1U) != 0;
    return false;
}

std::string hidepid_of(const std::string& root) {
    std::ifstream file(root + "/proc/mounts");
    std::string device, folder, type, options, rest;
    for (std::string line; std::getline(file, line);) {
        std::istringstream(line) >> device >> folder >> type >> options;
        const auto at = options.find("hidepid=");
        if (type != "proc" || folder != "/proc" || at == std::string::npos) continue;
        const std::string value = options.substr(at + 8, options.find(',', at) - at - 8);
        return value == "0" || value == "off" ? "" : value;
    }
    return "";
}

void gather_process(Facts& facts, const std::string& root) {
    constexpr unsigned kIpcLock = 14;
    facts.locked_memory = limit_of(root, "Max locked memory");
    facts.open_files = limit_of(root, "Max open files");
    facts.can_lock_all = has_capability(root, kIpcLock);
    facts.max_map_count = number_in(root + "/proc/sys/vm/max_map_count");
    facts.is_dumpable = prctl(PR_GET_DUMPABLE) == 1;
    facts.hidepid = hidepid_of(root);
    facts.kernel = line_in(root + "/proc/sys/kernel/osrelease");
    struct statvfs info {};
    if (statvfs((root + "/dev/shm").c_str(), &info) == 0)
        facts.dev_shm = {info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize};
}

std::vector<DeviceFile> gather_device_files(const std::string& root) {
    std::vector<DeviceFile> files;
    for (const std::string& name : names_in(root + "/dev/infiniband")) {
        if (!name.starts_with("uverbs")) continue;
        const std::string path = "/dev/infiniband/" + name;
        const int fd = open((root + path).c_str(), O_RDWR | O_CLOEXEC);
        files.push_back({path, fd < 0 ? std::strerror(errno) : ""});
        if (fd >= 0) close(fd);
    }
    return files;
}

/// Counters whose growth means lost, damaged or repeated packets.
constexpr const char* kErrorCounters[] = {
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/rx_icrc_encapsulated",
    "hw_counters/req_transport_retries_exceeded",
    "hw_counters/out_of_seq_request",  // from here on: rxe
    "hw_counters/rcvd_seq_err",
    "hw_counters/retry_exceeded_err",
    "hw_counters/send_err",
};

void read_errors(Port& port, const std::string& folder) {
    for (const char* const counter : kErrorCounters) {
        const std::string path = counter;
        if (const auto value = number_in(folder + path)) {
            port.has_counters = true;
            if (*value != 0) port.errors.emplace_back(path.substr(path.find('/') + 1), *value);
        }
    }
}

/// Priorities whose file says 1: "3", "0,3"; "none"; empty where there is no such folder.
std::string priorities_in(const std::string& folder) {
    std::string on;
    bool is_known = false;
    for (int priority = 0; priority < 8; ++priority)
        if (const auto value = number_in(fmt::format("{}/{}", folder, priority))) {
            is_known = true;
            if (*value != 0) on += fmt::format("{}{}", on.empty() ? "" : ",", priority);
        }
    return on.empty() && is_known ? "none" : on;
}

/// What mlx5 shows in sysfs; other drivers show it by netlink only.
std::vector<std::pair<std::string, std::string>> qos_of(const std::string& root,
                                                        const transport::Nic& nic,
                                                        const transport::NicPort& port) {
    std::vector<std::pair<std::string, std::string>> qos;
    const auto add = [&qos](const char* name, const std::string& value) {
        if (!value.empty()) qos.emplace_back(name, value);
    };
    add("traffic class", line_in(fmt::format("{}/sys/class/infiniband/{}/tc/{}/traffic_class", root,
                                             nic.name, port.number)));
    const auto with_netdev =
        std::find_if(port.gids.begin(), port.gids.end(),
                     [](const transport::GidEntry& gid) { return !gid.netdev.empty(); });
    if (with_netdev == port.gids.end()) return qos;
    const std::string net = root + "/sys/class/net/" + with_netdev->netdev;
    add("trust", line_in(net + "/qos/trust"));
    add("PFC", line_in(net + "/qos/pfc"));
    add("ECN notified on priorities", priorities_in(net + "/ecn/roce_np/enable"));
    add("ECN obeyed on priorities", priorities_in(net + "/ecn/roce_rp/enable"));
    add("CNP DSCP", line_in(net + "/ecn/roce_np/cnp_dscp"));
    return qos;
}

void gather_ports(Facts& facts, const Asked& asked, const std::string& root) {
    std::vector<bool> was_found(asked.verbs.nics.size(), false);
    for (std::size_t n = 0; n < facts.nics.size(); ++n)
        for (std::size_t p = 0; p < facts.nics[n].ports.size(); ++p) {
            const auto& nic = facts.nics[n];
            const std::string name = fmt::format("{}:{}", nic.name, nic.ports[p].number);
            bool is_asked = asked.verbs.nics.empty();
            for (std::size_t i = 0; i < asked.verbs.nics.size(); ++i)
                if (asked.verbs.nics[i] == name || asked.verbs.nics[i] == nic.name)
                    was_found[i] = is_asked = true;
            if (!is_asked) continue;
            Port port;
            port.nic = n;
            port.index = p;
            port.name = name;
            read_errors(port, fmt::format("{}/sys/class/infiniband/{}/ports/{}/", root, nic.name,
                                          nic.ports[p].number));
            port.qos = qos_of(root, nic, nic.ports[p]);
            facts.ports.push_back(std::move(port));
        }
    for (std::size_t i = 0; i < asked.verbs.nics.size(); ++i)
        if (!was_found[i]) facts.unknown_nics.push_back(asked.verbs.nics[i]);
}

/// "Model: \t\t NVIDIA H200".
std::string model_of(const std::string& path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("Model:")) {
            const auto at = line.find_first_not_of(" \t", 6);
            return at == std::string::npos ? "" : line.substr(at);
        }
    return "";
}

void gather_gpus(Facts& facts, const std::string& root) {
    const std::string folder = root + "/proc/driver/nvidia/";
    for (const std::string& pci : names_in(folder + "gpus")) {
        Gpu gpu{pci, model_of(fmt::format("{}gpus/{}/information", folder, pci)), {}};
        try {
            gpu.distances = transport::nic_distances(facts.nics, pci);
        } catch (const ConfigError&) {
            // hwloc does not see it, as in containers that hide /sys/bus/pci: unknown.
        }
        facts.gpus.push_back(std::move(gpu));
    }
    facts.has_open_gpu_module =
        line_in(folder + "version").find("Open Kernel Module") != std::string::npos;
    facts.has_peermem = fs::exists(root + "/sys/module/nvidia_peermem") ||
                        fs::exists(root + "/sys/module/nv_peer_mem");
}

void gather_pci(Facts& facts, const std::string& root) {
    std::vector<std::pair<std::string, std::string>> devices;  // name, address
    for (const auto& nic : facts.nics)
        if (!nic.pci.empty()) {
            devices.emplace_back(nic.name, nic.pci);
            facts.relaxed_ordering.emplace_back(nic.name,
                                                relaxed_ordering(read_config(root, nic.pci)));
        }
    for (const Gpu& gpu : facts.gpus) devices.emplace_back("GPU " + gpu.pci, gpu.pci);
    for (const auto& [name, address] : devices) {
        facts.iommu.emplace_back(
            name,
            line_in(fmt::format("{}/sys/bus/pci/devices/{}/iommu_group/type", root, address)));
        for (const std::string& bridge : bridges_above(root, address))
            if (std::none_of(facts.bridges.begin(), facts.bridges.end(),
                             [&](const auto& known) { return known.first == bridge; }))
                facts.bridges.emplace_back(bridge, acs_redirects(read_config(root, bridge)));
    }
}

}  // namespace

Facts gather_facts(const Asked& asked, std::vector<transport::Nic> nics, const std::string& root) {
    Facts facts;
    facts.host = line_in(root + "/proc/sys/kernel/hostname");
    facts.version = fmt::format("{} (git {})", version_number(), git_revision());
    facts.binary = fmt::format("{:016x}", hash_name(text_in(root + "/proc/self/exe")));
    facts.mpi = mpi::library_version();
    gather_process(facts, root);
    facts.nics = std::move(nics);
    if (facts.nics.empty()) facts.why_no_nics = transport::why_no_nics(root);
    facts.device_files = gather_device_files(root);
    facts.distances = transport::nic_distances(facts.nics);
    gather_ports(facts, asked, root);
    gather_gpus(facts, root);
    gather_pci(facts, root);
    return facts;
}

OutputFacts gather_output(const std::string& output) {
    const std::string path = results_path(output.empty() ? "results/doctor.h5" : output, "");
    OutputFacts facts;
    facts.has_file = !output.empty() && fs::exists(path);
    fs::path folder = fs::absolute(path).parent_path();
    // The folder results/ is made by push.
    if (output.empty() && !fs::exists(folder)) folder = folder.parent_path();
    facts.folder = folder;
    facts.file_system = file_system(folder);
    std::string probe = (folder / ".weightlift-doctor-XXXXXX").string();
    const int fd = mkostemp(probe.data(), O_CLOEXEC);
    if (fd < 0) {
        facts.error = std::strerror(errno);
        return facts;
    }
    if (write(fd, "weightlift\n", 11) != 11 || fsync(fd) != 0) facts.error = std::strerror(errno);
    close(fd);
    unlink(probe.c_str());
    struct statvfs info {};
    if (statvfs(folder.c_str(), &info) == 0) facts.free = info.f_bavail * info.f_frsize;
    return facts;
}

}  // namespace weightlift::app::doctor
