// Transport by NCCL's point-to-point calls: what others use for this, and so what ours are compared
// with. Two-sided: the destination receives what the source has said it will send.
#pragma once

#include <memory>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::nccl {

[[nodiscard]] const Capabilities& capabilities();
[[nodiscard]] std::unique_ptr<Transport> make(const Context& context);
/// Why this process has no GPU to use; empty: it has one.
[[nodiscard]] std::string problem(const Context& context);

}  // namespace weightlift::transport::nccl
