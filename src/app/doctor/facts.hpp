// What doctor knows of one rank and its machine: read once, judged elsewhere.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weightlift/base/bytes.hpp"
#include "weightlift/transport/nics.hpp"
#include "weightlift/transport/options.hpp"

#include "pci.hpp"

namespace weightlift::app::doctor {

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// What the user asked for, as far as checks depend on it.
struct Asked {
    std::string transport = "auto";   ///< what is to be used; auto: whatever there is
    transport::VerbsOptions verbs;    ///< no nics: all
    std::optional<Bytes> registered;  ///< bytes this rank will register
    std::string output;               ///< results file; empty: one in results/

    [[nodiscard]] bool uses_rdma() const { return transport == "auto" || transport == "verbs"; }
    [[nodiscard]] bool needs_rdma() const { return transport == "verbs" || !verbs.nics.empty(); }
};

struct DeviceFile {
    std::string path;
    std::string error;  ///< empty: can be opened for reading and writing
};

/// A port of a NIC, and what is read of it beside libibverbs.
struct Port {
    std::size_t nic = 0;                                        ///< index into Facts::nics
    std::size_t index = 0;                                      ///< into its ports
    std::string name;                                           ///< "mlx5_0:1"
    bool has_counters = false;                                  ///< the driver keeps any of errors
    std::vector<std::pair<std::string, std::uint64_t>> errors;  ///< those that are not zero
    std::vector<std::pair<std::string, std::string>> qos;       ///< setting, value
};

struct Gpu {
    std::string pci;             ///< "0000:03:00.0"
    std::string model;           ///< "NVIDIA H200"
    std::vector<int> distances;  ///< to each of Facts::nics (nic_distances); empty: unknown
};

struct Facts {
    std::string host, version, binary, mpi, kernel;
    int launched = 0;    ///< ranks that the launcher says it started; 0: no launcher
    int world_size = 1;  ///< ranks that MPI sees

    std::optional<std::uint64_t> locked_memory, open_files;  ///< soft limits, or kUnlimited
    bool can_lock_all = false;                               ///< CAP_IPC_LOCK
    std::optional<std::uint64_t> max_map_count;
    std::optional<std::pair<Bytes, Bytes>> dev_shm;  ///< size, free
    bool is_dumpable = true;                         ///< its /proc/PID/fd is open to its user
    std::string hidepid;                             ///< of /proc; empty: none

    std::vector<transport::Nic> nics;
    std::string why_no_nics;  ///< where there are none
    std::vector<DeviceFile> device_files;
    std::vector<int> distances;             ///< of nics to this rank's memory
    std::vector<Port> ports;                ///< those asked for
    std::vector<std::string> unknown_nics;  ///< asked for, and not there

    std::vector<Gpu> gpus;
    bool has_open_gpu_module = false;  ///< NVIDIA's open kernel modules, which export dma-bufs
    bool has_peermem = false;

    std::vector<std::pair<std::string, std::string>> iommu;  ///< device, type of its IOMMU group
    std::vector<std::pair<std::string, std::optional<bool>>> relaxed_ordering;  ///< by NIC
    std::vector<std::pair<std::string, Redirect>> bridges;  ///< above NICs and GPUs, and their ACS
};

/// `root` goes before /proc, /sys and /dev (for tests). `nics` are list_nics().
[[nodiscard]] Facts gather_facts(const Asked& asked, std::vector<transport::Nic> nics,
                                 const std::string& root = "");

struct OutputFacts {
    std::string folder;       ///< that the results go to
    std::string error;        ///< why nothing can be written there; empty: something was
    std::string file_system;  ///< "ext", "nfs", …
    Bytes free = 0;
    bool has_file = false;  ///< the results file is there already
};
/// Writes a file of its own there and removes it again.
[[nodiscard]] OutputFacts gather_output(const std::string& output);

}  // namespace weightlift::app::doctor
