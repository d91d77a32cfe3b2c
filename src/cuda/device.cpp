#include "weightlift/cuda/device.hpp"

#include <array>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/cuda/error.hpp"

namespace weightlift::cuda {
namespace {

std::string uuid_text(const cudaUUID_t& uuid) {
    std::string text = "GPU-";
    for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
    }
    return text;
}

Device describe(int ordinal) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
    return {.ordinal = ordinal,
            .name = properties.name,
            .uuid = uuid_text(properties.uuid),
            .pci = fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID,
                               properties.pciBusID, properties.pciDeviceID),
            .memory = properties.totalGlobalMem,
            .multiprocessors = properties.multiProcessorCount};
}

/// The devices, or why there are none.
struct Inventory {
    std::vector<Device> devices;
    std::string problem;
};

Inventory look() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    // Looked at here: nobody else need meet it.
    if (status != cudaSuccess) (void)cudaGetLastError();
    switch (status) {
        case cudaSuccess: break;
        case cudaErrorInsufficientDriver: {
            int driver = 0;
            (void)cudaDriverGetVersion(&driver);
            if (driver == 0) return {{}, "this machine has no NVIDIA driver (libcuda.so.1)"};
            return {{},
                    fmt::format("the NVIDIA driver has CUDA {}.{}, older than the {}.{} that this "
                                "program was built with: update the driver",
                                driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                                CUDART_VERSION % 1000 / 10)};
        }
        case cudaErrorNoDevice:
            return {{},
                    "the NVIDIA driver shows no GPU to this process: look at nvidia-smi -L, "
                    "CUDA_VISIBLE_DEVICES and the job's request for GPUs"};
        default: return {{}, fmt::format("cudaGetDeviceCount: {}", error_text(status))};
    }
    if (count == 0) return {{}, "CUDA_VISIBLE_DEVICES hides every GPU from this process"};
    Inventory found;
    for (int ordinal = 0; ordinal < count; ++ordinal) found.devices.push_back(describe(ordinal));
    return found;
}

const Inventory& inventory() {
    static const Inventory found = look();
    return found;
}

}  // namespace

const std::vector<Device>& devices() { return inventory().devices; }

std::string why_no_devices() { return inventory().problem; }

std::string device_label(int ordinal) {
    for (const Device& device : devices())
        if (device.ordinal == ordinal)
            return fmt::format("GPU {} ({}, {})", ordinal, device.name, device.pci);
    return fmt::format("GPU {}", ordinal);
}

Bytes free_memory(int ordinal) {
    const DeviceGuard guard(ordinal);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
}

DeviceGuard::DeviceGuard(int ordinal) {
    if (ordinal < 0 || ordinal >= static_cast<int>(devices().size()))
        throw ConfigError(devices().empty()
                              ? fmt::format("GPU {}: {}", ordinal, why_no_devices())
                              : fmt::format("GPU {} does not exist: this process sees {}", ordinal,
                                            devices().size()));
    check(cudaGetDevice(&former_), "cudaGetDevice");
    if (former_ != ordinal) check(cudaSetDevice(ordinal), "cudaSetDevice");
}

DeviceGuard::~DeviceGuard() { warn(cudaSetDevice(former_), "cudaSetDevice"); }

}  // namespace weightlift::cuda
