// Which devices a rank attaches to.
#pragma once

#include <memory>
#include <vector>

#include "resources.hpp"

namespace weightlift::transport::verbs {

struct Place {
    const Nic* nic;
    const NicPort* port;
    GidChoice gid;
    bool is_spare = false;
};

/// Those that were asked for, else the nearest that can be used, of which all but this rank's share
/// are spare. `nics` must outlive what is returned, which is never empty. ConfigError naming the
/// device, what is wrong with it, and the remedy.
[[nodiscard]] std::vector<Place> choose_places(const std::vector<Nic>& nics,
                                               const Context& context);

[[nodiscard]] std::vector<std::unique_ptr<Device>> open_devices(const Context& context);

}  // namespace weightlift::transport::verbs
