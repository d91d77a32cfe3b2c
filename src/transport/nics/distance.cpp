#include "distance.hpp"

#include <algorithm>
#include <memory>

#include <hwloc.h>

#include "weightlift/base/error.hpp"

namespace weightlift::transport {
namespace {

struct Destroy {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;
struct Free {
    void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Set = std::unique_ptr<hwloc_bitmap_s, Free>;

Topology load_topology() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0)
        throw Error(ExitCode::Internal, "hwloc_topology_init failed");
    Topology topology(raw);
#if HWLOC_API_VERSION >= 0x00020100
    // Without its PCI library hwloc reads the same from sysfs, and leaves no memory behind.
    if (hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "pci") != 0)
        throw Error(ExitCode::Internal, "hwloc_topology_set_components failed");
#endif
    // PCI devices and the bridges above them, to see which share a switch; not what operating
    // system and drivers make of them, for which hwloc would load OpenCL, CUDA and the like.
    if (hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL) !=
            0 ||
        hwloc_topology_set_type_filter(raw, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_load(raw) != 0)
        throw Error(ExitCode::Internal, "hwloc cannot read this machine's topology");
    return topology;
}

/// NUMA nodes that this process takes memory from: by its memory binding, else (first touch) those
/// of the processors it is bound to.
Set memory_nodes(hwloc_topology_t topology) {
    const hwloc_const_nodeset_t all = hwloc_topology_get_topology_nodeset(topology);
    Set nodes(hwloc_bitmap_alloc());
    hwloc_membind_policy_t policy{};
    const bool is_bound =
        hwloc_get_membind(topology, nodes.get(), &policy, HWLOC_MEMBIND_BYNODESET) == 0 &&
        policy == HWLOC_MEMBIND_BIND;
    if (is_bound && hwloc_bitmap_isequal(nodes.get(), all) == 0) return nodes;
    const Set processors(hwloc_bitmap_alloc());
    if (hwloc_get_cpubind(topology, processors.get(), 0) == 0)
        hwloc_cpuset_to_nodeset(topology, processors.get(), nodes.get());
    else
        hwloc_bitmap_copy(nodes.get(), all);
    return nodes;
}

hwloc_obj_t find_pci(hwloc_topology_t topology, const std::string& address) {
    return address.empty() ? nullptr : hwloc_get_pcidev_by_busidstring(topology, address.c_str());
}

/// Packages that own any of the nodes.
Set packages_of(hwloc_topology_t topology, hwloc_const_nodeset_t nodes) {
    Set packages(hwloc_bitmap_alloc());
    for (hwloc_obj_t at = nullptr;
         (at = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, at)) != nullptr;)
        if (hwloc_bitmap_intersects(at->nodeset, nodes) != 0)
            hwloc_bitmap_set(packages.get(), at->logical_index);
    return packages;
}

/// Same node 0, same package 1, same machine 2.
int distance_between(hwloc_topology_t topology, hwloc_const_nodeset_t memory,
                     hwloc_const_nodeset_t device) {
    if (hwloc_bitmap_intersects(memory, device) != 0) return 0;
    const Set a = packages_of(topology, memory), b = packages_of(topology, device);
    return hwloc_bitmap_intersects(a.get(), b.get()) != 0 ? 1 : 2;
}

/// Nodes nearest to a device: hwloc's view of the PCI tree, else what the kernel says of it.
Set nodes_of(hwloc_topology_t topology, const Nic& nic) {
    Set nodes(hwloc_bitmap_alloc());
    if (const hwloc_obj_t device = find_pci(topology, nic.pci); device != nullptr)
        hwloc_bitmap_copy(nodes.get(), hwloc_get_non_io_ancestor_obj(topology, device)->nodeset);
    else if (nic.numa_node >= 0)
        hwloc_bitmap_only(nodes.get(), static_cast<unsigned>(nic.numa_node));
    return nodes;
}

hwloc_obj_t common_ancestor(hwloc_obj_t a, hwloc_obj_t b) {
    for (; a != nullptr; a = a->parent)
        for (hwloc_obj_t at = b; at != nullptr; at = at->parent)
            if (a == at) return a;
    return nullptr;
}

constexpr int kSwitch = 0, kHostBridge = 1, kNode = 2, kMachine = 3;

int distance_of_devices(hwloc_topology_t topology, hwloc_obj_t a, hwloc_obj_t b) {
    const hwloc_obj_t common = common_ancestor(a, b);
    if (common != nullptr && common->type == HWLOC_OBJ_PCI_DEVICE) return kSwitch;
    if (common != nullptr && common->type == HWLOC_OBJ_BRIDGE)
        return common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST ? kHostBridge : kSwitch;
    const auto* const from = hwloc_get_non_io_ancestor_obj(topology, a)->nodeset;
    const auto* const to = hwloc_get_non_io_ancestor_obj(topology, b)->nodeset;
    return hwloc_bitmap_intersects(from, to) != 0 ? kNode : kMachine;
}

bool has_none_on_pci(std::span<const Nic> nics) {
    return std::all_of(nics.begin(), nics.end(), [](const Nic& nic) { return nic.pci.empty(); });
}

}  // namespace

std::vector<int> distances_to_memory(std::span<const Nic> nics, std::span<const unsigned> nodes) {
    std::vector<int> distances(nics.size(), 0);
    if (has_none_on_pci(nics)) return distances;
    const Topology topology = load_topology();
    Set memory(hwloc_bitmap_alloc());
    for (const unsigned node : nodes) hwloc_bitmap_set(memory.get(), node);
    if (nodes.empty()) memory = memory_nodes(topology.get());
    for (std::size_t i = 0; i < nics.size(); ++i) {
        if (nics[i].pci.empty()) continue;
        const Set near = nodes_of(topology.get(), nics[i]);
        // Where nothing is known of the device, no node is nearer than another.
        if (hwloc_bitmap_iszero(near.get()) == 0)
            distances[i] = distance_between(topology.get(), memory.get(), near.get());
    }
    return distances;
}

std::vector<int> nic_distances(std::span<const Nic> nics, const std::string& gpu_pci) {
    if (gpu_pci.empty()) return distances_to_memory(nics, {});
    std::vector<int> distances(nics.size(), 0);
    if (has_none_on_pci(nics)) return distances;
    const Topology topology = load_topology();
    const hwloc_obj_t gpu = find_pci(topology.get(), gpu_pci);
    if (gpu == nullptr)
        throw ConfigError("GPU " + gpu_pci + ": hwloc knows no PCI device of this address");
    for (std::size_t i = 0; i < nics.size(); ++i) {
        if (nics[i].pci.empty()) continue;
        const hwloc_obj_t device = find_pci(topology.get(), nics[i].pci);
        distances[i] =
            device == nullptr ? kMachine : distance_of_devices(topology.get(), gpu, device);
    }
    return distances;
}

}  // namespace weightlift::transport
