// What a build without CUDA knows of GPUs.
#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/cuda/device.hpp"

namespace weightlift::cuda {

const std::vector<Device>& devices() {
    static const std::vector<Device> none;
    return none;
}

std::string why_no_devices() {
    return "this build has no CUDA: configure with -DWEIGHTLIFT_WITH_CUDA=ON where nvcc is "
           "installed";
}

std::string device_label(int ordinal) { return fmt::format("GPU {}", ordinal); }

Bytes free_memory(int ordinal) {
    throw ConfigError(fmt::format("{}: {}", device_label(ordinal), why_no_devices()));
}

DeviceGuard::DeviceGuard(int ordinal) {
    throw ConfigError(fmt::format("{}: {}", device_label(ordinal), why_no_devices()));
}
DeviceGuard::~DeviceGuard() = default;

}  // namespace weightlift::cuda
