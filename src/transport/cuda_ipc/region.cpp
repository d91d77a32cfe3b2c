#include "region.hpp"

#include <bit>

#include <fmt/format.h>
#include <unistd.h>

namespace weightlift::transport::cuda_ipc {

LocalRegion::LocalRegion(const memory::Arena& arena, int rank, int size)
    : arena_(arena), control_(size) {
    if (arena.kind() != memory::MemoryKind::Cuda)
        throw TransportError("cuda_ipc: this rank's memory is not of a GPU (--memory cuda)");
    if (arena.share_fd() >= 0) door_.emplace();
    key_ = {.owner = ProcessId::own(rank),
            .control = control_.id(),
            .door = door_ ? door_->name() : DoorName{},
            .share = memory::share_cuda_arena(arena),
            .bytes = arena.bytes(),
            .address = std::bit_cast<std::uint64_t>(arena.data())};
}

void LocalRegion::serve(std::size_t writers, const mpi::Deadline& deadline) const {
    if (door_) door_->serve(arena_.share_fd(), writers, deadline);
}

Key checked_key(const Destination& destination, int world_size, const std::string& peer) {
    const auto key = unpack_key<Key>(destination.key);
    if (!key || key->control.bytes != EpochLines::bytes(world_size))
        throw TransportError(
            fmt::format("cuda_ipc: the key of {} is not one of this transport", peer));
    check_reachable(key->owner, destination.rank, "cuda_ipc", peer);
    if (key->bytes != destination.region_bytes)
        throw TransportError(
            fmt::format("cuda_ipc: the key of {} is for a region of {} bytes, not {}", peer,
                        key->bytes, destination.region_bytes));
    return *key;
}

RemoteRegion::RemoteRegion(const Key& key, int fd, int device, const std::string& peer)
    : control_(borrow(key.owner, key.control, "cuda_ipc", peer), key.control.bytes,
               "cuda_ipc: mmap of the control page of " + peer) {
    if (key.owner.pid == ::getpid()) {
        data_ = std::bit_cast<std::byte*>(key.address);
        return;
    }
    try {
        memory_ = memory::map_cuda_share(key.share, fd, device);
    } catch (const Error& error) {
        throw TransportError(fmt::format(
            "cuda_ipc: cannot map the GPU memory of {}: {}; the GPUs must be able to reach each "
            "other (nvidia-smi topo -p2p w), all ranks of a host must run in one container or with "
            "a common IPC namespace, and in Slurm every task must be given all GPUs of its node "
            "(--gpus-per-node with --gpu-bind=none)",
            peer, error.what()));
    }
    data_ = memory_->data();
}

}  // namespace weightlift::transport::cuda_ipc
