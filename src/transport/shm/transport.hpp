// Transport between processes of one host through shared memory. Host memory with a descriptor.
#pragma once

#include <memory>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::shm {

[[nodiscard]] const Capabilities& capabilities();
[[nodiscard]] std::unique_ptr<Transport> make(const Context& context);

}  // namespace weightlift::transport::shm
