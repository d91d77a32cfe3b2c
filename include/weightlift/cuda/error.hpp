// Every CUDA call is checked by one of these; destructors use the twins that only warn.
#pragma once

#include <string>

namespace weightlift::cuda {

/// `status` is a cudaError_t. Where it is not success: ConfigError for what the user can change (no
/// memory, no device, an old driver), else TransportError; both name the call and the current
/// device.
void check(int status, const char* call);

/// `status` is a CUresult of the driver API.
void check_driver(int status, const char* call);

/// For destructors: one line on stderr.
void warn(int status, const char* call) noexcept;
void warn_driver(int status, const char* call) noexcept;

/// CUDA's own text of a cudaError_t, or of a CUresult.
[[nodiscard]] std::string error_text(int status);
[[nodiscard]] std::string driver_error_text(int status);

}  // namespace weightlift::cuda
