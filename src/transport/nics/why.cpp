#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {
namespace {

namespace fs = std::filesystem;

/// First name in a folder, by the alphabet, that begins so; empty where there is none.
std::string first_in(const std::string& folder, const std::string& prefix = "") {
    std::string first;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename();
        if (name.starts_with(prefix) && (first.empty() || name < first)) first = name;
    }
    return first;
}

}  // namespace

std::string why_no_nics(const std::string& root) {
    const std::string classes = root + "/sys/class/infiniband";
    if (!fs::is_directory(classes))
        return "the kernel here has no RDMA (no /sys/class/infiniband): load the NIC's driver "
               "(mlx5_ib, irdma, bnxt_re, …), or rdma_rxe for Soft-RoCE";
    const std::string device = first_in(classes);
    if (device.empty())
        return "the kernel has RDMA, but no device (/sys/class/infiniband is empty): load the "
               "NIC's driver (mlx5_ib, irdma, bnxt_re, …), give this network namespace a device "
               "(rdma system show), or make one of Soft-RoCE (rdma link add rxe0 type rxe netdev "
               "eth0)";
    const std::string files = root + "/dev/infiniband";
    const std::string verbs = first_in(files, "uverbs");
    if (verbs.empty())
        return fmt::format(
            "{} is there, but /dev/infiniband/uverbs* is not: load ib_uverbs; in a "
            "container pass --device=/dev/infiniband",
            device);
    const int fd = open((files + "/" + verbs).c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fmt::format(
            "/dev/infiniband/{} cannot be opened ({}): give this user read and "
            "write permission, in a container also its device cgroup",
            verbs, std::strerror(errno));
    close(fd);
    return fmt::format(
        "libibverbs finds no driver for {}: install its provider (Debian, Ubuntu: "
        "ibverbs-providers; RHEL: libibverbs)",
        device);
}

}  // namespace weightlift::transport
