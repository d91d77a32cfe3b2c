#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "app/doctor/checks.hpp"

namespace weightlift::app::doctor {
namespace {

using transport::GidType;
using transport::LinkLayer;
using transport::Nic;
using transport::NicPort;

transport::Gid v4(std::uint8_t last) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
}
transport::Gid link_local() { return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}; }

Nic roce(const std::string& name) {
    NicPort port;
    port.is_active = true;
    port.state = "ACTIVE";
    port.link = LinkLayer::Ethernet;
    port.mtu = 4096;
    port.rate = 50e9;
    port.netdev_mtu = 9000;
    port.gids = {{3, v4(1), GidType::RoceV2, "ens1", 24}};
    Nic nic;
    nic.name = name;
    nic.pci = "0000:17:00.0";
    nic.firmware = "28.39.1002";
    nic.part_id = 4129;
    nic.numa_node = 0;
    nic.ports = {port};
    return nic;
}

/// A machine where everything is in order, with two NICs and a GPU.
Facts healthy() {
    Facts f;
    f.host = "n041";
    f.version = "1.0 (git abc)";
    f.binary = "00ff";
    f.mpi = "Open MPI v4.1.6";
    f.launched = f.world_size = 16;
    f.locked_memory = f.open_files = kUnlimited;
    f.max_map_count = 65530;
    f.dev_shm = {64 * GiB, 60 * GiB};
    f.nics = {roce("mlx5_0"), roce("mlx5_1")};
    f.device_files = {{"/dev/infiniband/uverbs0", ""}, {"/dev/infiniband/uverbs1", ""}};
    f.distances = {0, 2};
    f.ports.resize(2);
    for (std::size_t i = 0; i < 2; ++i) {
        f.ports[i].nic = i;
        f.ports[i].name = f.nics[i].name + ":1";
        f.ports[i].has_counters = true;
        f.ports[i].qos = {{"PFC", "0 0 0 1 0 0 0 0"}};
    }
    f.gpus = {{"0000:03:00.0", "NVIDIA H200", {0, 3}}};
    f.has_open_gpu_module = true;
    f.iommu = {{"mlx5_0", "identity"}, {"GPU 0000:03:00.0", ""}};
    f.relaxed_ordering = {{"mlx5_0", true}, {"mlx5_1", true}};
    f.bridges = {{"0000:00:01.0", Redirect::No}};
    return f;
}

/// The worst finding of that check.
Finding worst_of(const RankReport& report, const std::string& check) {
    Finding worst{check, Verdict::Skip, "(no such finding)", ""};
    bool is_first = true;
    for (const Finding& finding : report.findings) {
        if (finding.check != check) continue;
        const auto weight = [](Verdict v) { return v == Verdict::Skip ? -1 : static_cast<int>(v); };
        if (is_first || weight(finding.verdict) > weight(worst.verdict)) worst = finding;
        is_first = false;
    }
    return worst;
}

struct Row {
    const char* name;
    std::function<void(Facts&, Asked&)> change;
    const char* check;
    Verdict verdict;
    const char* evidence;  ///< a part of it
    const char* remedy;    ///< a part of it
};

NicPort& port(Facts& f, std::size_t i = 0) { return f.nics[i].ports[0]; }

const Row kRows[] = {
    {"all ranks", [](Facts&, Asked&) {}, "launch", Verdict::Ok, "16 ranks, as many as launched",
     ""},
    {"no launcher", [](Facts& f, Asked&) { f.launched = 0; }, "launch", Verdict::Skip,
     "this process alone", "mpirun -n"},
    {"singletons of another MPI", [](Facts& f, Asked&) { f.world_size = 1; }, "launch",
     Verdict::Fail, "started 16 ranks, but MPI sees a world of 1", "Open MPI v4.1.6"},

    {"unlimited", [](Facts&, Asked&) {}, "locked memory", Verdict::Ok, "unlimited", ""},
    {"limit, nothing known of the weights", [](Facts& f, Asked&) { f.locked_memory = 64 * KiB; },
     "locked memory", Verdict::Warn, "64 KiB", "LimitMEMLOCK"},
    {"limit below what is to be registered",
     [](Facts& f, Asked& a) {
         f.locked_memory = 8 * MiB;
         a.registered = 8 * MiB + 1;
     },
     "locked memory", Verdict::Fail, "8 MiB", "ulimit -l unlimited"},
    {"limit just enough",
     [](Facts& f, Asked& a) { f.locked_memory = a.registered.emplace(8 * MiB); }, "locked memory",
     Verdict::Ok, "enough to register 8 MiB", ""},
    {"limit that a capability lifts",
     [](Facts& f, Asked& a) {
         f.locked_memory = 0;
         f.can_lock_all = true;
         a.registered = GiB;
     },
     "locked memory", Verdict::Ok, "CAP_IPC_LOCK", ""},
    {"limit without an RDMA device",
     [](Facts& f, Asked&) {
         f.locked_memory = 64 * KiB;
         f.nics.clear();
         f.ports.clear();
     },
     "locked memory", Verdict::Ok, "with an RDMA device only", ""},

    {"few mappings", [](Facts& f, Asked&) { f.max_map_count = 4096; }, "max_map_count",
     Verdict::Warn, "4096", "sysctl"},
    {"no /proc/sys", [](Facts& f, Asked&) { f.max_map_count.reset(); }, "max_map_count",
     Verdict::Skip, "not readable", ""},
    {"few files for many ranks",
     [](Facts& f, Asked&) {
         f.launched = f.world_size = 1024;
         f.open_files = 1024;
     },
     "open files", Verdict::Warn, "1024 ranks may need 4352", "ulimit -n"},
    {"the usual limit of files", [](Facts& f, Asked&) { f.open_files = 1024; }, "open files",
     Verdict::Ok, "1024", ""},
    {"a container's shared memory",
     [](Facts& f, Asked&) {
         f.dev_shm = {64 * MiB, 64 * MiB};
     },
     "/dev/shm", Verdict::Warn, "64 MiB", "--shm-size"},
    {"shared memory full of old files",
     [](Facts& f, Asked&) {
         f.dev_shm = {64 * GiB, MiB};
     },
     "/dev/shm", Verdict::Warn, "1 MiB are free", "old jobs"},
    {"no shared memory", [](Facts& f, Asked&) { f.dev_shm.reset(); }, "/dev/shm", Verdict::Warn,
     "not mounted", "--shm-size"},
    {"a set-user-id binary", [](Facts& f, Asked&) { f.is_dumpable = false; }, "/proc/PID/fd",
     Verdict::Fail, "not dumpable", "--transport mpi"},

    {"no RDMA",
     [](Facts& f, Asked&) {
         f.nics.clear();
         f.ports.clear();
         f.why_no_nics = "the kernel here has no RDMA";
     },
     "RDMA devices", Verdict::Skip, "none: the kernel here has no RDMA", ""},
    {"no RDMA, but it is asked for",
     [](Facts& f, Asked& a) {
         f.nics.clear();
         f.ports.clear();
         a.transport = "verbs";
     },
     "RDMA devices", Verdict::Fail, "none", ""},
    {"RDMA that is not to be used",
     [](Facts& f, Asked& a) {
         port(f).is_active = false;
         a.transport = "shm";
     },
     "RDMA devices", Verdict::Skip, "not used by --transport shm", ""},
    {"a device that cannot be opened",
     [](Facts& f, Asked&) { f.nics[1].problem = "ibv_open_device: Permission denied"; },
     "RDMA devices", Verdict::Fail, "mlx5_1: ibv_open_device: Permission denied", "dmesg"},
    {"two firmwares of one kind", [](Facts& f, Asked&) { f.nics[1].firmware = "28.36.1"; },
     "RDMA devices", Verdict::Warn, "(part 4129) have firmware 28.36.1, 28.39.1002", "firmware"},
    {"two firmwares of two kinds",
     [](Facts& f, Asked&) {
         f.nics[1].firmware = "28.36.1";
         f.nics[1].part_id = 4123;
     },
     "RDMA devices", Verdict::Ok, "mlx5_0: firmware 28.39.1002", ""},
    {"a name that is none",
     [](Facts& f, Asked& a) {
         a.verbs.nics = {"mlx5_7"};
         f.unknown_nics = {"mlx5_7"};
     },
     "RDMA devices", Verdict::Fail, "--nic mlx5_7", "mlx5_0:1"},
    {"a device file that is closed",
     [](Facts& f, Asked&) { f.device_files[0].error = "Permission denied"; }, "/dev/infiniband",
     Verdict::Fail, "/dev/infiniband/uverbs0: Permission denied", "--device=/dev/infiniband"},
    {"a port that nobody wired",
     [](Facts& f, Asked&) {
         port(f, 1).is_active = false;
         port(f, 1).state = "DOWN";
     },
     "ports", Verdict::Warn, "mlx5_1:1: DOWN", "cable"},
    {"no port is up",
     [](Facts& f, Asked&) {
         for (auto& nic : f.nics) {
             nic.ports[0].is_active = false;
             nic.ports[0].state = "DOWN";
         }
     },
     "ports", Verdict::Fail, "mlx5_0:1, mlx5_1:1: DOWN", "cable"},
    {"the port asked for is down",
     [](Facts& f, Asked& a) {
         a.verbs.nics = {"mlx5_1"};
         port(f, 1).is_active = false;
         port(f, 1).state = "INIT";
     },
     "ports", Verdict::Fail, "mlx5_1:1: INIT", "subnet manager"},
    {"ports alike", [](Facts&, Asked&) {}, "ports", Verdict::Ok,
     "mlx5_0:1, mlx5_1:1: ACTIVE, Ethernet 400 Gbit/s", ""},

    {"address chosen and why", [](Facts&, Asked&) {}, "address", Verdict::Ok,
     "index 3, RoCEv2, IPv4-mapped 10.0.0.1 on ens1", ""},
    {"link-local only", [](Facts& f, Asked&) { port(f).gids[0].gid = link_local(); }, "address",
     Verdict::Warn, "mlx5_0:1: index 3, RoCEv2, link-local", "IPv4"},
    {"no address", [](Facts& f, Asked&) { port(f).gids.clear(); }, "address", Verdict::Fail,
     "no GID", ""},
    {"an index that is none", [](Facts&, Asked& a) { a.verbs.gid_index = 9; }, "address",
     Verdict::Fail, "--gid-index 9", ""},
    {"jumbo frames", [](Facts&, Asked&) {}, "MTU", Verdict::Ok, "path 4096, interface 9000", ""},
    {"interface MTU one byte short", [](Facts& f, Asked&) { port(f).netdev_mtu = 4199; }, "MTU",
     Verdict::Warn, "mlx5_0:1: path 4096, interface 4199", "4200"},
    {"interface MTU just enough", [](Facts& f, Asked&) { port(f).netdev_mtu = 4200; }, "MTU",
     Verdict::Ok, "interface 4200", ""},
    {"InfiniBand has no interface MTU",
     [](Facts& f, Asked&) {
         for (auto& nic : f.nics) {
             nic.ports[0].link = LinkLayer::InfiniBand;
             nic.ports[0].lid = 5;
             nic.ports[0].netdev_mtu = -1;
         }
     },
     "MTU", Verdict::Ok, "path 4096", ""},
    {"errors counted",
     [](Facts& f, Asked&) {
         f.ports[1].errors = {{"symbol_error", 3}};
     },
     "error counters", Verdict::Warn, "mlx5_1:1: symbol_error 3", "cable"},
    {"no errors", [](Facts&, Asked&) {}, "error counters", Verdict::Ok, "all zero", ""},
    {"errors of a port that is down do not count",
     [](Facts& f, Asked&) {
         port(f, 1).is_active = false;
         f.ports[1].errors = {{"symbol_error", 3}};
     },
     "error counters", Verdict::Ok, "mlx5_0:1: all zero", ""},
    {"no counters",
     [](Facts& f, Asked&) {
         for (auto& p : f.ports) p.has_counters = false;
     },
     "error counters", Verdict::Skip, "keeps none", ""},
    {"near NIC", [](Facts&, Asked&) {}, "NIC and memory", Verdict::Ok, "one NUMA node", ""},
    {"far NICs only",
     [](Facts& f, Asked&) {
         f.distances = {2, 1};
         f.nics[1].numa_node = 1;
     },
     "NIC and memory", Verdict::Warn, "mlx5_1, is on another NUMA node", "mlx5_1 is at node 1"},
    {"QoS shown", [](Facts&, Asked&) {}, "DSCP, PFC, ECN", Verdict::Ok, "PFC 0 0 0 1 0 0 0 0", ""},
    {"QoS not shown",
     [](Facts& f, Asked&) {
         for (auto& p : f.ports) p.qos.clear();
     },
     "DSCP, PFC, ECN", Verdict::Skip, "not shown in /sys", "dcb pfc show"},
    {"relaxed ordering off", [](Facts& f, Asked&) { f.relaxed_ordering[1].second = false; },
     "relaxed ordering", Verdict::Warn, "mlx5_1: off", "BIOS"},
    {"relaxed ordering unreadable",
     [](Facts& f, Asked&) {
         f.relaxed_ordering = {{"mlx5_0", {}}, {"mlx5_1", {}}};
     },
     "relaxed ordering", Verdict::Skip, "by root only", "lspci"},

    {"no GPU", [](Facts& f, Asked&) { f.gpus.clear(); }, "GPU", Verdict::Skip, "none", ""},
    {"GPU", [](Facts&, Asked&) {}, "GPU", Verdict::Ok, "1 (NVIDIA H200)", ""},
    {"GPU and NIC on one switch", [](Facts&, Asked&) {}, "GPU and NIC", Verdict::Ok,
     "0000:03:00.0 and mlx5_0 on one switch", ""},
    {"GPU and NIC through the root complex",
     [](Facts& f, Asked&) {
         f.gpus[0].distances = {3, 1};
     },
     "GPU and NIC", Verdict::Warn, "0000:03:00.0 and mlx5_1 on one host bridge", "--nic"},
    {"the NIC on the GPU's switch is down", [](Facts& f, Asked&) { port(f).is_active = false; },
     "GPU and NIC", Verdict::Warn, "mlx5_1 on different NUMA nodes", "--nic"},
    {"PCI hidden", [](Facts& f, Asked&) { f.gpus[0].distances.clear(); }, "GPU and NIC",
     Verdict::Skip, "no path known", ""},
    {"peermem alone",
     [](Facts& f, Asked&) {
         f.has_open_gpu_module = false;
         f.has_peermem = true;
     },
     "GPU memory keys", Verdict::Ok, "nvidia_peermem", ""},
    {"neither peermem nor dma-buf", [](Facts& f, Asked&) { f.has_open_gpu_module = false; },
     "GPU memory keys", Verdict::Warn, "no nvidia_peermem", "modprobe nvidia_peermem"},
    {"IOMMU passes through", [](Facts&, Asked&) {}, "IOMMU", Verdict::Ok, "no translation", ""},
    {"IOMMU translates", [](Facts& f, Asked&) { f.iommu[0].second = "DMA-FQ"; }, "IOMMU",
     Verdict::Warn, "translates for mlx5_0", "iommu=pt"},
    {"ACS on", [](Facts& f, Asked&) { f.bridges.emplace_back("0000:00:03.0", Redirect::Yes); },
     "ACS", Verdict::Warn, "0000:00:03.0", "setpci"},
    {"ACS unreadable", [](Facts& f, Asked&) { f.bridges[0].second = Redirect::Unreadable; }, "ACS",
     Verdict::Skip, "by root only", "lspci"},
};

TEST(DoctorChecks, judge_each_fact) {
    for (const Row& row : kRows) {
        SCOPED_TRACE(std::string(row.check) + ": " + row.name);
        Facts facts = healthy();
        Asked asked;
        row.change(facts, asked);
        const Finding finding = worst_of(check_rank(facts, asked), row.check);
        EXPECT_EQ(to_string(finding.verdict), to_string(row.verdict)) << finding.evidence;
        EXPECT_NE(finding.evidence.find(row.evidence), std::string::npos) << finding.evidence;
        EXPECT_NE(finding.remedy.find(row.remedy), std::string::npos) << finding.remedy;
        // What is in order needs none; with the rest it may stand in the evidence.
        if (row.verdict == Verdict::Ok) {
            EXPECT_EQ(finding.remedy, "");
        }
    }
}

TEST(DoctorChecks, find_nothing_wrong_with_a_healthy_machine) {
    for (const Finding& finding : check_rank(healthy(), {}).findings) {
        EXPECT_EQ(finding.verdict, Verdict::Ok) << finding.check << ": " << finding.evidence;
        EXPECT_EQ(finding.remedy, "") << finding.check;
    }
}

TEST(DoctorChecks, use_rails_that_are_active_and_have_an_address) {
    Facts facts = healthy();
    EXPECT_EQ(usable_rails(facts, {}), (std::vector<std::string>{"mlx5_0:1", "mlx5_1:1"}));
    port(facts, 0).is_active = false;
    EXPECT_EQ(usable_rails(facts, {}), (std::vector<std::string>{"mlx5_1:1"}));
    port(facts, 1).gids.clear();
    EXPECT_TRUE(usable_rails(facts, {}).empty());
}

struct OutputRow {
    const char* name;
    OutputFacts facts;
    Verdict verdict;
    const char* evidence;
};

TEST(DoctorChecks, judge_the_output_folder) {
    const OutputRow rows[] = {
        {"writable", {"/r", "", "xfs", 9 * GiB, false}, Verdict::Ok, "/r is writable (xfs)"},
        {"read-only",
         {"/r", "Read-only file system", "nfs", 0, false},
         Verdict::Fail,
         "cannot write in /r: Read-only file system"},
        {"nearly full", {"/r", "", "xfs", GiB - 1, false}, Verdict::Warn, "/r has 1 GiB left"},
        {"there already", {"/r", "", "xfs", 9 * GiB, true}, Verdict::Fail, "there already"},
    };
    for (const OutputRow& row : rows) {
        SCOPED_TRACE(row.name);
        const Finding finding = check_output(row.facts);
        EXPECT_EQ(to_string(finding.verdict), to_string(row.verdict));
        EXPECT_NE(finding.evidence.find(row.evidence), std::string::npos) << finding.evidence;
        EXPECT_EQ(finding.remedy.empty(), row.verdict == Verdict::Ok);
        EXPECT_TRUE(finding.is_joint);
    }
}

}  // namespace
}  // namespace weightlift::app::doctor
