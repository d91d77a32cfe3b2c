#include "weightlift/transport/registry.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#if WEIGHTLIFT_WITH_CUDA
#include "cuda_ipc/reach.hpp"
#include "cuda_ipc/transport.hpp"
#endif
#include "mpi/transport.hpp"
#include "shm/transport.hpp"
#include "staged/transport.hpp"
#if WEIGHTLIFT_WITH_VERBS
#include "verbs/transport.hpp"
#endif

namespace weightlift::transport {
namespace {

struct Entry {
    std::string_view name;
    const Capabilities& (*capabilities)();
    std::unique_ptr<Transport> (*make)(const Context&);
    std::string (*problem)(const Context&) = [](const Context&) { return std::string(); };
    std::vector<Unreached> (*find_unreached)(const Context&, const LinkTable&) =
        [](const Context&, const LinkTable&) { return std::vector<Unreached>(); };
};

constexpr std::array kEntries = {
#if WEIGHTLIFT_WITH_CUDA
    Entry{"cuda_ipc", cuda_ipc::capabilities, cuda_ipc::make, cuda_ipc::problem,
          cuda_ipc::find_unreached},
#endif
    Entry{"shm", shm::capabilities, shm::make},
#if WEIGHTLIFT_WITH_VERBS
    Entry{"verbs", verbs::capabilities, verbs::make, verbs::problem},
#endif
    Entry{"mpi", mpi_rma::capabilities, mpi_rma::make},
    Entry{"staged", staged::capabilities, staged::make},
};

constexpr auto kNames = [] {
    std::array<std::string_view, kEntries.size()> names;
    std::transform(kEntries.begin(), kEntries.end(), names.begin(),
                   [](const Entry& entry) { return entry.name; });
    return names;
}();

const Entry& entry(std::string_view name) {
    const auto* const found =
        std::find_if(kEntries.begin(), kEntries.end(),
                     [name](const Entry& candidate) { return candidate.name == name; });
    if (found == kEntries.end())
        throw ConfigError(fmt::format("transport {} is not one of those built in: {}", name,
                                      fmt::join(kNames, ", ")));
    return *found;
}

}  // namespace

std::span<const std::string_view> transport_names() { return kNames; }

std::unique_ptr<Transport> make_transport(std::string_view name, const Context& context) {
    return entry(name).make(context);
}

std::string transport_problem(std::string_view name, const Context& context) {
    return entry(name).problem(context);
}

std::vector<Unreached> find_unreached(std::string_view name, const Context& context,
                                      const LinkTable& links) {
    return entry(name).find_unreached(context, links);
}

Capabilities transport_capabilities(std::string_view name) { return entry(name).capabilities(); }

}  // namespace weightlift::transport
