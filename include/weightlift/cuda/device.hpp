// The GPUs that this process sees. No CUDA type is visible here; a build without CUDA sees none.
#pragma once

#include <string>
#include <vector>

#include "weightlift/base/bytes.hpp"

namespace weightlift::cuda {

struct Device {
    int ordinal = 0;  ///< among the visible ones; another process may count otherwise
    std::string name;
    std::string uuid;  ///< "GPU-…": the same in every process
    std::string pci;   ///< "0000:17:00.0"
    Bytes memory = 0;
    int multiprocessors = 0;
};

/// Looked for once; empty where there are none. Opens no context.
[[nodiscard]] const std::vector<Device>& devices();

/// Why devices() is empty, with the remedy. Empty where it is not.
[[nodiscard]] std::string why_no_devices();

/// "GPU 0 (NVIDIA H200, 0000:17:00.0)".
[[nodiscard]] std::string device_label(int ordinal);

/// The device of a rank, by its number on the node: round robin over those visible. A process that
/// sees one takes that one, whatever its number. Pure; ConfigError where none is visible.
[[nodiscard]] int choose_device(int local_rank, int visible);

/// Bytes that this process could still allocate there. Opens a context.
[[nodiscard]] Bytes free_memory(int ordinal);

/// Makes a device current for this thread, and the former one again at the end.
class DeviceGuard {
public:
    explicit DeviceGuard(int ordinal);
    ~DeviceGuard();
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

private:
    int former_ = 0;
};

}  // namespace weightlift::cuda
