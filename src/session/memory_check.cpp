// Whether the machines can hold what the ranks are about to allocate: asked of all at once, since
// each sees only what is free before the others take theirs.
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>

#include <fmt/format.h>

#include "state.hpp"

namespace weightlift::session {
namespace {

/// What tells GPUs apart among ranks: ordinals of different processes may mean different ones.
using FixedUuid = std::array<char, 48>;

FixedUuid fixed_uuid(const cuda::Device& gpu) {
    FixedUuid uuid{};
    gpu.uuid.copy(uuid.data(), uuid.size() - 1);
    return uuid;
}

}  // namespace

void Session::State::choose_gpu() {
    if (options.memory != memory::MemoryKind::Cuda) return;
    const auto& devices = cuda::devices();
    if (devices.empty())
        throw ConfigError(fmt::format("--memory cuda: {}", cuda::why_no_devices()));
    const auto visible = static_cast<int>(devices.size());
    if (options.gpu && *options.gpu >= visible)
        throw ConfigError(fmt::format("--gpu {}: this process sees {} GPUs, from 0 to {}",
                                      *options.gpu, visible, visible - 1));
    const int local_rank = inputs.topology.local_rank[static_cast<std::size_t>(rank)];
    gpu = devices[static_cast<std::size_t>(
        options.gpu.value_or(cuda::choose_device(local_rank, visible)))];
}

memory::ArenaOptions Session::State::arena_options() const {
    return {{.device = gpu ? gpu->ordinal : 0,
             .method = options.device_memory,
             .at_least = least_gpu_bytes}};
}

/// NCCL's windows are as long on all ranks of a communicator.
void Session::State::agree_on_gpu_bytes(const mpi::Deadline& deadline) {
    if (options.memory != memory::MemoryKind::Cuda) return;
    least_gpu_bytes = world().max(arena_bytes(), deadline, "bytes of all ranks");
}

void Session::State::check_one_rank_per_gpu(const mpi::Deadline& deadline) const {
    const auto demands_it = [](const Lane& lane) {
        return lane.transport->capabilities().one_rank_per_gpu;
    };
    const auto lane = std::find_if(lanes.begin(), lanes.end(), demands_it);
    if (lane == lanes.end() || !gpu) return;
    struct Place {
        FixedUuid uuid{};
        std::array<char, 160> label{};
        bool is_used = false;
    };
    Place mine;
    mine.uuid = fixed_uuid(*gpu);
    cuda::device_label(gpu->ordinal).copy(mine.label.data(), mine.label.size() - 1);
    mine.is_used = !lane->links.destinations.empty() || !lane->links.sources.empty();
    const auto places = world().gather(mine, deadline, "memory check");
    std::map<std::string, int> first;
    for (std::size_t r = 0; r < places.size(); ++r) {
        if (!places[r].is_used) continue;
        const int other = static_cast<int>(r);
        const auto [at, is_new] = first.try_emplace(places[r].uuid.data(), other);
        if (!is_new)
            throw ConfigError(fmt::format(
                "transport {} needs a GPU for each rank, but {} and {} share {} (fewer ranks per "
                "node, more GPUs, or --transport cuda_ipc)",
                lane->name, agreement.label(at->second), agreement.label(other),
                places[r].label.data()));
    }
}

void Session::State::check_memory(const mpi::Deadline& deadline) const {
    struct Need {
        Bytes bytes, available;
    };
    // What transports need besides is host memory, whatever the weights are in.
    Bytes bytes = options.memory == memory::MemoryKind::Host ? arena_bytes() : 0;
    for (const Lane& lane : lanes)
        bytes = checked_add(bytes, lane.transport->scratch_bytes(lane.links), "memory of a rank");
    const auto needs =
        world().gather(Need{bytes, memory::available_host_memory()}, deadline, "memory check");
    struct Node {
        Bytes bytes = 0, available = ~Bytes{0};
        int ranks = 0, first = -1;
    };
    std::vector<Node> nodes(inputs.topology.node_size.size());
    for (std::size_t r = 0; r < needs.size(); ++r) {
        Node& node = nodes[static_cast<std::size_t>(inputs.topology.node[r])];
        if (node.first < 0) node.first = static_cast<int>(r);
        node.bytes = checked_add(node.bytes, needs[r].bytes, "memory of a node");
        node.available = std::min(node.available, needs[r].available);
        ++node.ranks;
    }
    for (const Node& node : nodes)
        if (node.first >= 0 && node.bytes > node.available)
            throw ConfigError(fmt::format(
                "host {}: its {} ranks need {} for weights and staging, but only {} of memory is "
                "available there "
                "(fewer --layers, or more hosts)",
                inputs.topology.hosts[static_cast<std::size_t>(node.first)], node.ranks,
                human_bytes(node.bytes), human_bytes(node.available)));
}

void Session::State::check_gpu_memory(const mpi::Deadline& deadline) const {
    if (options.memory != memory::MemoryKind::Cuda) return;
    struct Need {
        FixedUuid uuid{};
        Bytes bytes = 0, free = 0;
    };
    Need mine;
    mine.uuid = fixed_uuid(*gpu);
    mine.bytes = std::max(arena_bytes(), least_gpu_bytes);
    for (const Lane& lane : lanes)
        mine.bytes = checked_add(mine.bytes, lane.transport->device_scratch_bytes(lane.links),
                                 "GPU memory of a rank");
    mine.free = cuda::free_memory(gpu->ordinal);
    const auto needs = world().gather(mine, deadline, "memory check");
    struct Gpu {
        Bytes bytes = 0, free = ~Bytes{0};
        int ranks = 0, first = -1;
    };
    std::map<std::string, Gpu> gpus;
    for (std::size_t r = 0; r < needs.size(); ++r) {
        Gpu& one = gpus[needs[r].uuid.data()];
        if (one.first < 0) one.first = static_cast<int>(r);
        one.bytes = checked_add(one.bytes, needs[r].bytes, "memory of a GPU");
        one.free = std::min(one.free, needs[r].free);
        ++one.ranks;
    }
    for (const auto& [uuid, one] : gpus)
        if (one.bytes > one.free)
            throw ConfigError(fmt::format(
                "host {}: {} has {} free, but its {} ranks need {} for weights and staging, {} of "
                "them rank {} "
                "(fewer --layers, or more GPUs)",
                inputs.topology.hosts[static_cast<std::size_t>(one.first)], uuid,
                human_bytes(one.free), one.ranks, human_bytes(one.bytes),
                human_bytes(needs[static_cast<std::size_t>(one.first)].bytes), one.first));
}

}  // namespace weightlift::session
