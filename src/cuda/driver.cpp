#include "weightlift/cuda/driver.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/cuda/error.hpp"

namespace weightlift::cuda {

void* driver_function(const char* name) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    check(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found),
          "cudaGetDriverEntryPointByVersion");
#else
    check(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found),
          "cudaGetDriverEntryPoint");
#endif
    if (found != cudaDriverEntryPointSuccess || function == nullptr)
        throw ConfigError(fmt::format("the NVIDIA driver has no {}: update it", name));
    return function;
}

}  // namespace weightlift::cuda
