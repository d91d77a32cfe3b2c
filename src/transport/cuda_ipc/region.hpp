// GPU memory that other processes of this host write to: the arena, and the page of host memory in
// which they note what they have finished.
#pragma once

#include <memory>
#include <optional>

#include "weightlift/memory/cuda_arena.hpp"
#include "weightlift/mpi/deadline.hpp"

#include "../arrivals.hpp"
#include "../fd_door.hpp"
#include "../region_key.hpp"

namespace weightlift::transport::cuda_ipc {

struct Key {
    static constexpr std::uint32_t kTag = 0x63756931;  // "cui1"
    ProcessId owner;
    FileId control;
    DoorName door{};  ///< where the memory's descriptor is to be had; zeros: not needed
    memory::CudaShare share;
    Bytes bytes = 0;            ///< of the arena
    std::uint64_t address = 0;  ///< of the arena, for writers in the same process
};

/// A rank's own region.
class LocalRegion {
public:
    /// For `rank` of a world of `size`.
    LocalRegion(const memory::Arena& arena, int rank, int size);
    [[nodiscard]] const Key& key() const { return key_; }
    [[nodiscard]] const memory::Arena& arena() const { return arena_; }
    [[nodiscard]] int device() const { return key_.share.device; }
    [[nodiscard]] EpochLines epochs() const { return control_.epochs(); }
    /// Where the memory goes by descriptor: gives it to so many writers.
    void serve(std::size_t writers, const mpi::Deadline& deadline) const;

private:
    const memory::Arena& arena_;
    ControlPage control_;
    std::optional<FdDoor> door_;
    Key key_;
};

/// The key of a destination. Throws TransportError, naming the peer, where it is not one of this
/// host, or not of a region of that rank and size.
[[nodiscard]] Key checked_key(const Destination& destination, int world_size,
                              const std::string& peer);

/// Another rank's region, mapped for one of this process's devices.
class RemoteRegion {
public:
    /// `fd`: the memory's descriptor, where it goes by one. Throws TransportError naming the peer,
    /// CUDA's reason and what may be done about it.
    RemoteRegion(const Key& key, int fd, int device, const std::string& peer);
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] EpochLines epochs() const { return EpochLines(control_.data()); }

private:
    Mapping control_;
    std::unique_ptr<memory::PeerCudaMemory> memory_;  ///< not of a rank in this process
    std::byte* data_ = nullptr;
};

}  // namespace weightlift::transport::cuda_ipc
