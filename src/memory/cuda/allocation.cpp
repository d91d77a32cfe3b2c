#include "allocation.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include "weightlift/base/error.hpp"
#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/driver.hpp"
#include "weightlift/cuda/error.hpp"

namespace weightlift::memory::cuda {

using weightlift::cuda::check;
using weightlift::cuda::check_driver;
using weightlift::cuda::device_label;
using weightlift::cuda::driver_entry;
using weightlift::cuda::warn;
using weightlift::cuda::warn_driver;

namespace {

/// Whole pages of any host that has GPUs: dma-bufs are of whole pages.
constexpr Bytes kPage = 64 * KiB;

ConfigError does_not_fit(Bytes bytes, int device) {
    std::size_t free = 0, total = 0;
    // Only for the message.
    const bool is_known = cudaMemGetInfo(&free, &total) == cudaSuccess;
    return ConfigError(fmt::format(
        "cuda arena of {} bytes on {}: out of memory{}", bytes, device_label(device),
        is_known ? fmt::format(", {} of {} bytes are free", free, total) : std::string()));
}

class Malloc final : public Allocation {
public:
    Malloc(Bytes bytes, int device) {
        size_ = round_up(bytes, kPage);
        if (size_ == 0) return;
        void* at = nullptr;
        const cudaError_t status = cudaMalloc(&at, size_);
        if (status == cudaErrorMemoryAllocation) {
            (void)cudaGetLastError();
            throw does_not_fit(bytes, device);
        }
        check(status, "cudaMalloc");
        data_ = static_cast<std::byte*>(at);
    }
    ~Malloc() override {
        if (data_ != nullptr) warn(cudaFree(data_), "cudaFree");
    }
};

/// One physical allocation, as a handle that is released.
class Physical {
public:
    Physical(Bytes bytes, Bytes size, const CUmemAllocationProp& properties, int device) {
        const auto create = driver_entry<PFN_cuMemCreate_v10020>("cuMemCreate");
        const CUresult status = create(&handle_, size, &properties, 0);
        if (status == CUDA_ERROR_OUT_OF_MEMORY) throw does_not_fit(bytes, device);
        check_driver(status, "cuMemCreate");
    }
    /// Another process's, by a descriptor of it.
    explicit Physical(int fd) {
        const auto import = driver_entry<PFN_cuMemImportFromShareableHandle_v10020>(
            "cuMemImportFromShareableHandle");
        // The driver takes a descriptor as a pointer.
        void* const handle = std::bit_cast<void*>(static_cast<std::uintptr_t>(fd));
        check_driver(import(&handle_, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                     "cuMemImportFromShareableHandle");
    }
    ~Physical() { warn_driver(release_(handle_), "cuMemRelease"); }
    Physical(const Physical&) = delete;
    Physical& operator=(const Physical&) = delete;
    [[nodiscard]] CUmemGenericAllocationHandle get() const { return handle_; }

private:
    PFN_cuMemRelease_v10020 release_ = driver_entry<PFN_cuMemRelease_v10020>("cuMemRelease");
    CUmemGenericAllocationHandle handle_ = 0;
};

class Addresses {
public:
    explicit Addresses(Bytes size) : size_(size) {
        const auto reserve = driver_entry<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve");
        check_driver(reserve(&at_, size, 0, 0, 0), "cuMemAddressReserve");
    }
    ~Addresses() { warn_driver(free_(at_, size_), "cuMemAddressFree"); }
    Addresses(const Addresses&) = delete;
    Addresses& operator=(const Addresses&) = delete;
    [[nodiscard]] CUdeviceptr get() const { return at_; }

private:
    PFN_cuMemAddressFree_v10020 free_ =
        driver_entry<PFN_cuMemAddressFree_v10020>("cuMemAddressFree");
    CUdeviceptr at_ = 0;
    Bytes size_;
};

/// For reads and writes by one device.
class Mapping {
public:
    Mapping(const Addresses& addresses, const Physical& physical, Bytes size, int device)
        : at_(addresses.get()), size_(size) {
        const auto map = driver_entry<PFN_cuMemMap_v10020>("cuMemMap");
        check_driver(map(at_, size, 0, physical.get(), 0), "cuMemMap");
        CUmemAccessDesc access{};
        access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.location.id = device;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        const auto set_access = driver_entry<PFN_cuMemSetAccess_v10020>("cuMemSetAccess");
        const CUresult status = set_access(at_, size, &access, 1);
        if (status != CUDA_SUCCESS) warn_driver(unmap_(at_, size_), "cuMemUnmap");
        check_driver(status, "cuMemSetAccess");
    }
    ~Mapping() { warn_driver(unmap_(at_, size_), "cuMemUnmap"); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

private:
    PFN_cuMemUnmap_v10020 unmap_ = driver_entry<PFN_cuMemUnmap_v10020>("cuMemUnmap");
    CUdeviceptr at_;
    Bytes size_;
};

class ExportedFd {
public:
    explicit ExportedFd(const Physical& physical) {
        const auto export_handle =
            driver_entry<PFN_cuMemExportToShareableHandle_v10020>("cuMemExportToShareableHandle");
        check_driver(
            export_handle(&fd_, physical.get(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            "cuMemExportToShareableHandle");
    }
    ~ExportedFd() { ::close(fd_); }
    ExportedFd(const ExportedFd&) = delete;
    ExportedFd& operator=(const ExportedFd&) = delete;
    [[nodiscard]] int get() const { return fd_; }

private:
    int fd_ = -1;
};

CUmemAllocationProp vmm_properties(int device) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    properties.allocFlags.gpuDirectRDMACapable =
        has_driver_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
            ? 1
            : 0;
    return properties;
}

Bytes granularity(const CUmemAllocationProp& properties) {
    const auto ask =
        driver_entry<PFN_cuMemGetAllocationGranularity_v10020>("cuMemGetAllocationGranularity");
    std::size_t bytes = 0;
    check_driver(ask(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                 "cuMemGetAllocationGranularity");
    return bytes;
}

/// Members in dependency order.
class Vmm final : public Allocation {
public:
    Vmm(Bytes bytes, Bytes size, const CUmemAllocationProp& properties, int device)
        : physical_(bytes, size, properties, device),
          fd_(physical_),
          addresses_(size),
          mapping_(addresses_, physical_, size, device) {
        data_ = std::bit_cast<std::byte*>(addresses_.get());
        size_ = size;
    }
    [[nodiscard]] int share_fd() const override { return fd_.get(); }
    [[nodiscard]] DeviceMemory method() const override { return DeviceMemory::Vmm; }

private:
    Physical physical_;
    ExportedFd fd_;
    Addresses addresses_;
    Mapping mapping_;
};

class PeerMalloc final : public PeerCudaMemory {
public:
    explicit PeerMalloc(const CudaShare& share) {
        cudaIpcMemHandle_t handle{};
        static_assert(sizeof handle == sizeof share.handle);
        std::memcpy(&handle, share.handle.data(), sizeof handle);
        // Not by ordinals: the other device may be hidden from this process.
        check(cudaIpcOpenMemHandle(&base_, handle, cudaIpcMemLazyEnablePeerAccess),
              "cudaIpcOpenMemHandle");
        data_ = static_cast<std::byte*>(base_) + share.offset;
    }
    ~PeerMalloc() override { warn(cudaIpcCloseMemHandle(base_), "cudaIpcCloseMemHandle"); }

private:
    void* base_ = nullptr;
};

/// Members in dependency order.
class PeerVmm final : public PeerCudaMemory {
public:
    PeerVmm(const CudaShare& share, int fd, int device)
        : physical_(fd),
          addresses_(share.size),
          mapping_(addresses_, physical_, share.size, device) {
        data_ = std::bit_cast<std::byte*>(addresses_.get()) + share.offset;
    }

private:
    Physical physical_;
    Addresses addresses_;
    Mapping mapping_;
};

class PeerNothing final : public PeerCudaMemory {};

}  // namespace

bool has_driver_attribute(int device, int attribute) {
    const auto find = driver_entry<PFN_cuDeviceGet_v2000>("cuDeviceGet");
    const auto ask = driver_entry<PFN_cuDeviceGetAttribute_v2000>("cuDeviceGetAttribute");
    CUdevice handle = 0;
    check_driver(find(&handle, device), "cuDeviceGet");
    int value = 0;
    const CUresult status = ask(&value, static_cast<CUdevice_attribute>(attribute), handle);
    // A driver older than the attribute.
    if (status == CUDA_ERROR_INVALID_VALUE) return false;
    check_driver(status, "cuDeviceGetAttribute");
    return value != 0;
}

CudaShare share(const Allocation& allocation, int device) {
    CudaShare share{.device = device, .method = allocation.method(), .size = allocation.size()};
    if (share.size == 0 || share.method == DeviceMemory::Vmm) return share;
    // A small allocation is a part of a larger one, and the handle is of that.
    const auto find = driver_entry<PFN_cuMemGetAddressRange_v3020>("cuMemGetAddressRange");
    CUdeviceptr base = 0;
    std::size_t size = 0;
    check_driver(find(&base, &size, reinterpret_cast<CUdeviceptr>(allocation.data())),
                 "cuMemGetAddressRange");
    share.offset = reinterpret_cast<CUdeviceptr>(allocation.data()) - base;
    share.size = size;
    cudaIpcMemHandle_t handle{};
    check(cudaIpcGetMemHandle(&handle, allocation.data()), "cudaIpcGetMemHandle");
    std::memcpy(share.handle.data(), &handle, sizeof handle);
    return share;
}

std::unique_ptr<PeerCudaMemory> map_share(const CudaShare& share, int fd, int device) {
    if (share.size == 0) return std::make_unique<PeerNothing>();
    check(cudaFree(nullptr), "cudaFree");  // the driver API takes the current context
    if (share.method == DeviceMemory::Vmm) return std::make_unique<PeerVmm>(share, fd, device);
    return std::make_unique<PeerMalloc>(share);
}

std::unique_ptr<Allocation> allocate(Bytes bytes, const CudaOptions& options) {
    bytes = std::max(bytes, options.at_least);
    if (options.method == DeviceMemory::Malloc || bytes == 0)
        return std::make_unique<Malloc>(bytes, options.device);
    if (!has_driver_attribute(options.device,
                              CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
        !has_driver_attribute(options.device,
                              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        throw ConfigError(
            fmt::format("{} has no virtual memory management: use --device-memory malloc",
                        device_label(options.device)));
    // The driver API takes the current context, which the runtime makes when first needed.
    check(cudaFree(nullptr), "cudaFree");
    const CUmemAllocationProp properties = vmm_properties(options.device);
    const Bytes size = round_up(bytes, granularity(properties));
    return std::make_unique<Vmm>(bytes, size, properties, options.device);
}

}  // namespace weightlift::memory::cuda
