#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "weightlift/mpi/communicator.hpp"

namespace weightlift::mpi {

void check(int rc, const char* call) {
    if (rc == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    if (MPI_Error_string(rc, text, &length) != MPI_SUCCESS)
        throw TransportError(std::string(call) + " failed with code " + std::to_string(rc));
    throw TransportError(std::string(call) + ": " + std::string(text, std::size_t(length)));
}

namespace {

/// Debian's and Ubuntu's Open MPI 4 exclude the one-sided component pt2pt by default ("osc =
/// ^ucx,pt2pt"). Where rdma finds nothing to work with (containers that forbid single-copy shared
/// memory, TCP between hosts), no window can be made then. Takes pt2pt off that list, unless the
/// user chose; rdma stays the first choice.
void allow_one_sided() {
    if (std::getenv("OMPI_MCA_osc") != nullptr) return;
    std::ifstream file("/etc/openmpi/openmpi-mca-params.conf");
    for (std::string line; std::getline(file, line);) {
        line.erase(
            std::remove_if(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t'; }),
            line.end());
        constexpr std::string_view kExcluded = "osc=^";
        if (line.compare(0, kExcluded.size(), kExcluded) != 0) continue;
        std::string kept;
        std::istringstream names(line.substr(kExcluded.size()));
        for (std::string name; std::getline(names, name, ',');)
            if (name != "pt2pt") kept += (kept.empty() ? "^" : ",") + name;
        setenv("OMPI_MCA_osc", kept.c_str(), 0);
    }
}

}  // namespace

Environment::Environment(int* argc, char*** argv) {
    allow_one_sided();
    int provided = 0;
    check(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

void Environment::finalize() {
    if (!std::exchange(is_open_, false)) return;
    check(MPI_Finalize(), "MPI_Finalize");
}

Environment::~Environment() {
    if (is_open_) MPI_Finalize();
}

int launcher_world_size() {
    const auto number = [](const char* name) -> long long {
        const char* value = std::getenv(name);
        return value == nullptr ? -1 : std::atoll(value);
    };
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
        if (const auto size = number(name); size > 0) return narrow<int>(size, name);
    // A batch script or an salloc shell has SLURM_NTASKS too, but no step of srun: none, or one of
    // the reserved ids from 0xfffffffa up.
    const auto step = number("SLURM_STEP_ID");
    if (step < 0 || step >= 0xfffffffaLL) return 0;
    for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
        if (const auto size = number(name); size > 0) return narrow<int>(size, name);
    return 0;
}

std::string library_version() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
    const std::string all(text.data(), static_cast<std::size_t>(length));
    return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace weightlift::mpi
