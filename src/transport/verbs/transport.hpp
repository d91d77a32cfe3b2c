// Transport over libibverbs: reliable connections, RDMA WRITE, arrival counted per queue pair.
#pragma once

#include <memory>
#include <string>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::verbs {

[[nodiscard]] const Capabilities& capabilities();
/// Why make() would throw here; empty: it would not.
[[nodiscard]] std::string problem(const Context& context);
/// Throws ConfigError where this process has no usable RDMA device.
[[nodiscard]] std::unique_ptr<Transport> make(const Context& context);

}  // namespace weightlift::transport::verbs
