#include "region.hpp"

#include <fmt/format.h>

namespace weightlift::transport::shm {
namespace {

Key checked_key(const Destination& destination, int world_size, const std::string& peer) {
    const auto key = unpack_key<Key>(destination.key);
    if (!key || key->control.bytes != EpochLines::bytes(world_size))
        throw TransportError(fmt::format("shm: the key of {} is not one of this transport", peer));
    check_reachable(key->owner, destination.rank, "shm", peer);
    if (key->arena.bytes != destination.region_bytes)
        throw TransportError(fmt::format("shm: the key of {} is for a region of {} bytes, not {}",
                                         peer, key->arena.bytes, destination.region_bytes));
    return *key;
}

int shared_file(const memory::Arena& arena) {
    if (arena.share_fd() < 0)
        throw TransportError("shm: this rank's memory has no descriptor that can be shared");
    return arena.share_fd();
}

}  // namespace

LocalRegion::LocalRegion(const memory::Arena& arena, int rank, int size)
    : arena_(arena),
      control_(size),
      key_{.owner = ProcessId::own(rank),
           .arena = FileId::of(shared_file(arena), arena.bytes()),
           .control = control_.id()} {}

RemoteRegion::RemoteRegion(const Destination& destination, int world_size, const std::string& peer)
    : RemoteRegion(checked_key(destination, world_size, peer), peer) {}

RemoteRegion::RemoteRegion(const Key& key, const std::string& peer)
    : arena_(borrow(key.owner, key.arena, "shm", peer), key.arena.bytes,
             "shm: mmap of the memory of " + peer),
      control_(borrow(key.owner, key.control, "shm", peer), key.control.bytes,
               "shm: mmap of the control page of " + peer) {}

}  // namespace weightlift::transport::shm
