#include <fmt/format.h>

#include "checks.hpp"

namespace weightlift::app::doctor {
namespace {

std::string show_limit(std::uint64_t limit) {
    return limit == kUnlimited ? "unlimited" : show_binary(limit);
}

Finding check_launch(const Facts& f) {
    if (f.launched == 0)
        return {"launch", Verdict::Skip, "no launcher: this process alone",
                "mpirun -n RANKS weightlift doctor checks all ranks, and writes between them"};
    if (f.launched > f.world_size)
        return {
            "launch", Verdict::Fail,
            fmt::format("the launcher started {} ranks, but MPI sees a world of {}", f.launched,
                        f.world_size),
            fmt::format("start with the launcher of {}, or one that serves it (srun --mpi=list)",
                        f.mpi)};
    return {
        "launch", Verdict::Ok,
        fmt::format("{} rank{}, as many as launched", f.world_size, f.world_size == 1 ? "" : "s"),
        ""};
}

Finding check_locked_memory(const Facts& f, const Asked& asked) {
    constexpr const char* kCheck = "locked memory";
    constexpr const char* kRemedy =
        "ulimit -l unlimited; where a daemon starts the ranks: LimitMEMLOCK=infinity in its unit "
        "(slurmd, sshd), or * - memlock unlimited in limits.conf; docker --ulimit memlock=-1";
    if (!f.locked_memory) return {kCheck, Verdict::Skip, "/proc/self/limits is not readable", ""};
    const std::string limit = show_limit(*f.locked_memory);
    if (*f.locked_memory == kUnlimited) return {kCheck, Verdict::Ok, limit, ""};
    if (f.can_lock_all) return {kCheck, Verdict::Ok, limit + ", lifted by CAP_IPC_LOCK", ""};
    if (f.nics.empty())
        return {kCheck, Verdict::Ok, limit + "; it counts with an RDMA device only", ""};
    if (!asked.registered)
        return {kCheck, Verdict::Warn,
                limit + ": an RDMA device registers all of a rank's weights, which counts",
                kRemedy};
    if (*f.locked_memory < *asked.registered)
        return {
            kCheck, Verdict::Fail,
            fmt::format("{}, but {} are to be registered", limit, show_binary(*asked.registered)),
            kRemedy};
    return {kCheck, Verdict::Ok,
            fmt::format("{}, enough to register {}", limit, show_binary(*asked.registered)), ""};
}

Finding check_map_count(const Facts& f) {
    // The kernel's default; a rank maps a few regions for each peer.
    constexpr std::uint64_t kEnough = 65530;
    if (!f.max_map_count)
        return {"max_map_count", Verdict::Skip, "/proc/sys/vm/max_map_count is not readable", ""};
    const std::string evidence = std::to_string(*f.max_map_count);
    if (*f.max_map_count < kEnough)
        return {"max_map_count", Verdict::Warn, evidence + ", less than the kernel's default",
                "sysctl -w vm.max_map_count=65530"};
    return {"max_map_count", Verdict::Ok, evidence, ""};
}

Finding check_open_files(const Facts& f) {
    if (!f.open_files)
        return {"open files", Verdict::Skip, "/proc/self/limits is not readable", ""};
    // MPI over TCP and the shm transport hold some for each peer.
    const auto needed = 256 + 4 * static_cast<std::uint64_t>(f.world_size);
    const std::string limit =
        *f.open_files == kUnlimited ? "unlimited" : std::to_string(*f.open_files);
    if (*f.open_files < needed)
        return {"open files", Verdict::Warn,
                fmt::format("{}, and {} ranks may need {}", limit, f.world_size, needed),
                fmt::format("ulimit -n {}", std::max<std::uint64_t>(needed, 65536))};
    return {"open files", Verdict::Ok, limit, ""};
}

Finding check_dev_shm(const Facts& f) {
    // A container's default is 64 MiB; MPI takes some for each pair of ranks of a node.
    constexpr Bytes kSmall = 64 * MiB, kLeast = 16 * MiB;
    constexpr const char* kRemedy =
        "MPI keeps its shared memory there: docker --shm-size=8g, or remove what old jobs left";
    if (!f.dev_shm) return {"/dev/shm", Verdict::Warn, "is not mounted", kRemedy};
    const auto [size, free] = *f.dev_shm;
    if (free < kLeast)
        return {"/dev/shm", Verdict::Warn,
                fmt::format("{}, of which {} are free", show_binary(size), show_binary(free)),
                kRemedy};
    if (size <= kSmall)
        return {"/dev/shm", Verdict::Warn,
                fmt::format("{}: little for many ranks", show_binary(size)), kRemedy};
    return {"/dev/shm", Verdict::Ok, show_binary(size), ""};
}

Finding check_tracing(const Facts& f) {
    constexpr const char* kCheck = "/proc/PID/fd";
    if (!f.is_dumpable)
        return {kCheck, Verdict::Fail,
                "this process is not dumpable: other ranks may not open its memory, as transport "
                "shm does",
                "run a binary without set-user-id bits and file capabilities (getcap), or take "
                "--transport mpi"};
    if (!f.hidepid.empty())
        return {kCheck, Verdict::Ok,
                fmt::format("open to processes of the same user (hidepid={})", f.hidepid), ""};
    return {kCheck, Verdict::Ok, "open to processes of the same user, as shm needs", ""};
}

}  // namespace

std::vector<Finding> check_machine(const Facts& facts, const Asked& asked) {
    return {check_launch(facts),    check_locked_memory(facts, asked),
            check_map_count(facts), check_open_files(facts),
            check_dev_shm(facts),   check_tracing(facts)};
}

Finding check_output(const OutputFacts& output) {
    constexpr Bytes kLittle = GiB;
    if (output.has_file)
        return {"output", Verdict::Fail, "the results file is there already",
                "results are never overwritten: give another --output", true};
    if (!output.error.empty())
        return {"output", Verdict::Fail,
                fmt::format("cannot write in {}: {}", output.folder, output.error),
                "make the folder writable on the host of rank 0, or give --output elsewhere", true};
    if (output.free < kLittle)
        return {"output", Verdict::Warn,
                fmt::format("{} has {} left", output.folder, show_binary(output.free)),
                "free some space, or give --output elsewhere", true};
    return {"output", Verdict::Ok,
            fmt::format("{} is writable ({})", output.folder, output.file_system), "", true};
}

}  // namespace weightlift::app::doctor
