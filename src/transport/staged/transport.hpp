// Transport through staging in host memory, for pairs that nothing more direct serves.
#pragma once

#include <memory>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::staged {

[[nodiscard]] const Capabilities& capabilities();
[[nodiscard]] std::unique_ptr<Transport> make(const Context& context);

}  // namespace weightlift::transport::staged
