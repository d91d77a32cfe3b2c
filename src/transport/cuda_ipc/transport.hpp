// Transport between GPUs that can map each other's memory: inside a host, over NVLink or PCIe.
#pragma once

#include <memory>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::cuda_ipc {

[[nodiscard]] const Capabilities& capabilities();
[[nodiscard]] std::unique_ptr<Transport> make(const Context& context);
/// Why this process has no GPU to use; empty: it has one.
[[nodiscard]] std::string problem(const Context& context);

}  // namespace weightlift::transport::cuda_ipc
