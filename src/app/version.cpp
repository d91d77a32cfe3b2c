#include <fmt/format.h>

#include "weightlift/record/h5_file.hpp"

#include "commands.hpp"
#if WEIGHTLIFT_WITH_MPI
#include "weightlift/mpi/communicator.hpp"
#include "weightlift/transport/registry.hpp"
#endif

namespace weightlift::app {

std::string version_number() { return WEIGHTLIFT_VERSION; }
std::string git_revision() { return WEIGHTLIFT_GIT; }

std::vector<std::pair<std::string, std::string>> built_with() {
    std::vector<std::pair<std::string, std::string>> parts;
    parts.emplace_back("compiler", fmt::format("{} {}",
#if defined(__clang__)
                                               "clang", __clang_version__
#else
                                               "gcc", __VERSION__
#endif
                                               ));
    parts.emplace_back("build", WEIGHTLIFT_BUILD_TYPE);
    parts.emplace_back("hdf5", record::hdf5_version());
    parts.emplace_back("cuda", WEIGHTLIFT_CUDA);
    parts.emplace_back("nccl", WEIGHTLIFT_NCCL);
#if WEIGHTLIFT_WITH_MPI
    parts.emplace_back("mpi", mpi::library_version());
    std::string names;
    for (const auto name : transport::transport_names())
        names += (names.empty() ? "" : ", ") + std::string(name);
    parts.emplace_back("transports", names);
#else
    parts.emplace_back("mpi", "no (offline commands only)");
#endif
    return parts;
}

std::string version_text() {
    std::string text = fmt::format("weightlift {} (git {})\n", version_number(), git_revision());
    for (const auto& [name, value] : built_with())
        text += fmt::format("  {:<11} {}\n", name, value);
    return text;
}

}  // namespace weightlift::app
