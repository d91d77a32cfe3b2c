// What a build without libibverbs knows of RDMA devices.
#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {

std::vector<Nic> list_nics() { return {}; }

std::string why_no_nics(const std::string&) {
    return "this build has no libibverbs: configure with -DWEIGHTLIFT_WITH_VERBS=ON where "
           "libibverbs and hwloc are installed";
}

std::vector<int> nic_distances(std::span<const Nic> nics, const std::string&) {
    return std::vector<int>(nics.size(), 0);
}

}  // namespace weightlift::transport
