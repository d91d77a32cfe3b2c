// GPU memory by either way of allocating it, as values that free it.
#pragma once

#include <cstddef>
#include <memory>

#include "weightlift/base/bytes.hpp"
#include "weightlift/memory/cuda_arena.hpp"

namespace weightlift::memory::cuda {

/// Of the device that was current at construction.
class Allocation {
public:
    virtual ~Allocation() = default;
    Allocation(const Allocation&) = delete;
    Allocation& operator=(const Allocation&) = delete;

    [[nodiscard]] std::byte* data() const { return data_; }
    /// What was really taken: a multiple of the page size.
    [[nodiscard]] Bytes size() const { return size_; }
    [[nodiscard]] virtual int share_fd() const { return -1; }
    [[nodiscard]] virtual DeviceMemory method() const { return DeviceMemory::Malloc; }

protected:
    Allocation() = default;
    std::byte* data_ = nullptr;
    Bytes size_ = 0;
};

/// Where the device has not that much: ConfigError naming the bytes and the device.
[[nodiscard]] std::unique_ptr<Allocation> allocate(Bytes bytes, const CudaOptions& options);

/// What map_share takes, in another process; both with `device` current.
[[nodiscard]] CudaShare share(const Allocation& allocation, int device);
[[nodiscard]] std::unique_ptr<PeerCudaMemory> map_share(const CudaShare& share, int fd, int device);

/// Whether the device has the attribute; the driver's numbers, as the runtime names few of them.
[[nodiscard]] bool has_driver_attribute(int device, int attribute);

/// A small array in memory of the current device, which grows and keeps nothing when it does.
template <class T>
class DeviceArray {
public:
    [[nodiscard]] T* data() const {
        return allocation_ ? reinterpret_cast<T*>(allocation_->data()) : nullptr;
    }
    void reserve(std::size_t count, int device) {
        if (allocation_ && allocation_->size() >= count * sizeof(T)) return;
        allocation_.reset();
        allocation_ = allocate(count * sizeof(T), {device, DeviceMemory::Malloc});
    }

private:
    std::unique_ptr<Allocation> allocation_;
};

}  // namespace weightlift::memory::cuda
