// What a transport's rank is attached to. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weightlift/base/bytes.hpp"

namespace weightlift::transport {

/// Bytes that left through one NIC.
struct NicTraffic {
    std::string nic;               ///< "mlx5_0:1"
    Bytes completed = 0;           ///< by completions, since connect
    std::optional<Bytes> counted;  ///< by the port's own counter over the same time, all its users
};

/// What a rank is attached to, for the results file; empty where a backend has no such thing.
struct Attachment {
    std::string nic;  ///< names, joined by +
    int gid_index = -1, mtu = 0;
    std::string registration, visibility;
    std::string rows;     ///< how short rows travel, with the figures that decided it
    std::string staging;  ///< how many destinations share theirs with this rank, and why not all do
    std::uint64_t queue_pairs = 0;
    std::vector<NicTraffic> traffic;
};

}  // namespace weightlift::transport
