#include "run_info.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "weightlift/base/error.hpp"

#include "commands.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

std::string first_line(const char* path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

/// "AMD EPYC 9654, 192 processors": two runs on different ones are not compared.
std::string processor() {
    const std::string count = fmt::format("{} processors", ::sysconf(_SC_NPROCESSORS_ONLN));
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name"))
            if (const auto colon = line.find(": "); colon != std::string::npos)
                return fmt::format("{}, {}", line.substr(colon + 2), count);
    return count;
}

/// File name, with all of its version, of a library of this process: "libibverbs.so.1.14.44.0".
std::string loaded_library(const std::string& name) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        const auto slash = line.rfind('/');
        if (slash == std::string::npos || line.compare(slash + 1, name.size(), name) != 0) continue;
        std::error_code error;
        const auto file = std::filesystem::canonical(line.substr(line.find('/')), error);
        return error ? line.substr(slash + 1) : file.filename().string();
    }
    return "none";
}

std::string nvidia_driver() {
    const std::string line = first_line("/proc/driver/nvidia/version");
    return line.empty() ? "none" : line;
}

}  // namespace

std::string file_system(const std::string& folder) {
    struct statfs info {};
    if (statfs(folder.empty() ? "." : folder.c_str(), &info) != 0) return "unknown";
    switch (static_cast<unsigned long>(info.f_type)) {
        case 0x6969: return "nfs";
        case 0x0BD00BD0: return "lustre";
        case 0xEF53: return "ext";
        case 0x58465342: return "xfs";
        case 0x9123683E: return "btrfs";
        case 0x01021994: return "tmpfs";
        case 0x794C7630: return "overlay";
        case 0x01021997: return "9p";
        case 0x47504653: return "gpfs";
        default: return fmt::format("0x{:x}", static_cast<unsigned long>(info.f_type));
    }
}

record::RunInfo make_run_info(const std::string& command, const std::string& labels,
                              const std::string& path) {
    record::RunInfo run;
    run.run_uuid = first_line("/proc/sys/kernel/random/uuid");
    run.created_utc = utc_now();
    run.tool_version = version_number();
    run.git = git_revision();
    run.command_line = "weightlift " + command;
    run.labels = labels;
    run.provenance = built_with();
    utsname system{};
    if (uname(&system) == 0)
        run.provenance.emplace_back("kernel", fmt::format("{} {}", system.sysname, system.release));
    run.provenance.emplace_back("cpu", processor());
    run.provenance.emplace_back("nvidia_driver", nvidia_driver());
    run.provenance.emplace_back("cuda", loaded_library("libcudart.so"));
    run.provenance.emplace_back("nccl", loaded_library("libnccl.so"));
    // The file's name ends with the version of rdma-core.
    run.provenance.emplace_back("rdma_core", loaded_library("libibverbs.so"));
    // Locking and crash promises differ between them.
    run.provenance.emplace_back("results_file_system",
                                file_system(std::filesystem::path(path).parent_path()));
    for (const char* name : {"SLURM_JOB_ID",
                             "SLURM_ARRAY_JOB_ID",
                             "SLURM_ARRAY_TASK_ID",
                             "SLURM_HET_SIZE",
                             "SLURM_RESTART_COUNT",
                             "SLURM_STEP_ID",
                             "SLURM_JOB_NAME",
                             "SLURM_JOB_NODELIST",
                             "SLURM_JOB_PARTITION",
                             "SLURM_NNODES",
                             "SLURM_NTASKS",
                             "SLURM_MPI_TYPE",
                             "SLURM_CPU_BIND",
                             "SLURM_CLUSTER_NAME",
                             "OMP_NUM_THREADS",
                             "OMPI_MCA_pml",
                             "OMPI_MCA_btl",
                             "OMPI_MCA_osc",
                             "UCX_TLS",
                             "UCX_NET_DEVICES",
                             "HDF5_USE_FILE_LOCKING",
                             "CUDA_VISIBLE_DEVICES",
                             "NCCL_NVLS_ENABLE",
                             "NCCL_MULTI_RANK_GPU_ENABLE",
                             "NCCL_IB_HCA",
                             "NCCL_SOCKET_IFNAME"})
        if (const char* value = std::getenv(name)) run.provenance.emplace_back(name, value);
    return run;
}

std::string results_path(const std::string& output, const std::string& model) {
    if (output.empty()) {
        std::error_code error;
        std::filesystem::create_directory("results", error);
        if (error)
            throw ResultsError(fmt::format("cannot make the folder results: {}", error.message()));
        std::string stamp = utc_now();
        for (const char drop : {'-', ':'})
            stamp.erase(std::remove(stamp.begin(), stamp.end(), drop), stamp.end());
        // Two runs may begin in one second.
        const std::string name = fmt::format("results/{}-{}", model, stamp);
        std::string path = name + ".h5";
        const auto is_taken = [&] {
            return std::filesystem::exists(path) || std::filesystem::exists(path + ".part");
        };
        for (int n = 2; is_taken(); ++n) path = fmt::format("{}-{}.h5", name, n);
        return path;
    }
    std::string path = output;
    for (auto at = path.find("%j"); at != std::string::npos; at = path.find("%j", at)) {
        const char* job = std::getenv("SLURM_JOB_ID");
        if (job == nullptr)
            throw ConfigError(fmt::format(
                "--output {}: %j needs a Slurm job, and SLURM_JOB_ID is not set", output));
        path.replace(at, 2, job);
    }
    return path;
}

}  // namespace weightlift::app
