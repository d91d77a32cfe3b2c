#include "weightlift/cuda/error.hpp"

#include <cstdio>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/driver.hpp"

namespace weightlift::cuda {
namespace {

/// What the user's configuration can cause; the rest is a failure of the machine or ours.
bool is_configuration(int status) {
    switch (status) {
        case cudaErrorMemoryAllocation:
        case cudaErrorNoDevice:
        case cudaErrorInvalidDevice:
        case cudaErrorInsufficientDriver:
        case cudaErrorNoKernelImageForDevice:
        case cudaErrorDevicesUnavailable:
        case cudaErrorCallRequiresNewerDriver: return true;
        default: return false;
    }
}

[[noreturn]] void raise(int status, const std::string& text, const char* call) {
    int ordinal = 0;
    // The device only adds to the message: without one there is still the call.
    const bool has_device = cudaGetDevice(&ordinal) == cudaSuccess;
    const std::string message = has_device ? fmt::format("{} on GPU {}: {}", call, ordinal, text)
                                           : fmt::format("{}: {}", call, text);
    if (is_configuration(status)) throw ConfigError(message);
    throw TransportError(message);
}

}  // namespace

std::string error_text(int status) {
    const auto error = static_cast<cudaError_t>(status);
    return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

std::string driver_error_text(int status) try {
    using Describe = CUresult (*)(CUresult, const char**);
    const char* text = nullptr;
    const auto describe = driver_entry<Describe>("cuGetErrorString");
    if (describe(static_cast<CUresult>(status), &text) == CUDA_SUCCESS && text != nullptr)
        return fmt::format("{} (CUresult {})", text, status);
    return fmt::format("CUresult {}", status);
} catch (const Error&) {
    return fmt::format("CUresult {}", status);
}

void check(int status, const char* call) {
    if (status == cudaSuccess) return;
    // Else the next launch's check would report it again.
    (void)cudaGetLastError();
    raise(status, error_text(status), call);
}

// The numbers of CUresult and cudaError_t agree wherever both have the error.
void check_driver(int status, const char* call) {
    if (status != CUDA_SUCCESS) raise(status, driver_error_text(status), call);
}

void warn(int status, const char* call) noexcept {
    if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
    std::fprintf(stderr, "weightlift: %s: %s\n", call,
                 cudaGetErrorString(static_cast<cudaError_t>(status)));
}

void warn_driver(int status, const char* call) noexcept {
    if (status == CUDA_SUCCESS || status == CUDA_ERROR_DEINITIALIZED) return;
    std::fprintf(stderr, "weightlift: %s: CUresult %d\n", call, status);
}

}  // namespace weightlift::cuda
