// Transport by MPI one-sided communication: works wherever MPI does. Host memory.
#pragma once

#include <memory>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::mpi_rma {

[[nodiscard]] const Capabilities& capabilities();
[[nodiscard]] std::unique_ptr<Transport> make(const Context& context);

}  // namespace weightlift::transport::mpi_rma
