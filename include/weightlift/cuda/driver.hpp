// Functions of the CUDA driver, asked of the runtime by name: nothing links libcuda, so that the
// program starts on machines without a driver.
#pragma once

namespace weightlift::cuda {

/// Address of the function of that name as CUDA 12.0 has it. ConfigError where the driver has none.
[[nodiscard]] void* driver_function(const char* name);

/// driver_entry<PFN_cuMemCreate>("cuMemCreate"); the types are those of <cudaTypedefs.h>.
template <class Function>
[[nodiscard]] Function driver_entry(const char* name) {
    return reinterpret_cast<Function>(driver_function(name));
}

}  // namespace weightlift::cuda
