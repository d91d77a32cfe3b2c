// Which peers' GPU memory can be mapped: found by mapping some, since being on one host is not
// enough (containers, MIG, GPUs without a path between them).
#pragma once

#include <vector>

#include "weightlift/transport/registry.hpp"

namespace weightlift::transport::cuda_ipc {

/// See transport::find_unreached. Takes a few MiB of GPU memory while it runs.
[[nodiscard]] std::vector<Unreached> find_unreached(const Context& context, const LinkTable& links);

}  // namespace weightlift::transport::cuda_ipc
