// Transport through staging in host memory, for pairs that nothing more direct serves: shared
// within a host, else sent by messages.
#pragma once

#include <memory>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::staged {

[[nodiscard]] const Capabilities& capabilities();
[[nodiscard]] std::unique_ptr<Transport> make(const Context& context);

}  // namespace weightlift::transport::staged
