#include "staging.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "weightlift/cuda/device.hpp"

namespace weightlift::transport::staged {
namespace {

Descriptor opened(const RingPlace& place, int rank, const std::string& peer) {
    check_reachable(place.owner, rank, "staged", peer);
    return borrow(place.owner, place.file, "staged", peer);
}

}  // namespace

Pin::Pin(const memory::Arena& weights, int device, std::byte* at, Bytes bytes) {
    if (weights.kind() != memory::MemoryKind::Cuda) return;
    const cuda::DeviceGuard guard(device);
    pinned_.emplace(at, bytes);
}

Staging::Staging(Bytes bytes, const memory::Arena& weights, int device)
    : memory_(memory::make_host_arena(bytes)), pin_(weights, device, memory_->data(), bytes) {}

Bytes Ring::bytes(Bytes slot) {
    return round_up(2 * kLine + kInSlots * slot, static_cast<Bytes>(::sysconf(_SC_PAGESIZE)));
}

PeerRing::PeerRing(const RingPlace& place, int rank, const std::string& peer,
                   const memory::Arena& weights, int device)
    : mapping_(opened(place, rank, peer), Ring::bytes(place.slot),
               "staged: mmap of the staging of " + peer, place.offset),
      pin_(weights, device, mapping_.data(), Ring::bytes(place.slot)),
      ring_(mapping_.data(), place.slot) {
#ifdef MADV_POPULATE_WRITE
    // Now, and not by a fault for each page in the first push.
    (void)::madvise(mapping_.data(), Ring::bytes(place.slot), MADV_POPULATE_WRITE);
#endif
}

}  // namespace weightlift::transport::staged
