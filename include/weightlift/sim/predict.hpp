// The lower bound of a push's time on a cluster: no order of sending can beat it. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/sim/traffic.hpp"

namespace weightlift::sim {

struct Port : PortId {
    Bytes bytes = 0;
    std::uint64_t messages = 0;
    double seconds = 0;  ///< max(bytes / rate, messages / message rate)
};

struct Prediction {
    std::vector<Port> busiest;     ///< the slowest ports first, at most as many as asked for
    double bandwidth_seconds = 0;  ///< max over ports and cuts of bytes / rate: the plan's floor
    double message_seconds = 0;    ///< max over ports of messages / message rate
    Bytes nvlink_bytes = 0;        ///< of the plan's bytes, those inside an NVLink domain
    std::uint64_t queue_pairs_per_port = 0;  ///< largest number of peers over one port, one QP each
    [[nodiscard]] double seconds() const {
        return bandwidth_seconds > message_seconds ? bandwidth_seconds : message_seconds;
    }
};

/// A lower bound of the time in which these flows can be moved, steps or not.
[[nodiscard]] Prediction predict(std::span<const Flow> flows, const Fabric& fabric,
                                 std::size_t busiest = 3);
/// Of a push of this plan. `trainers` of the plan's ranks are trainers.
[[nodiscard]] Prediction predict(const plan::PlanStatistics& statistics, Rank trainers,
                                 const Cluster& cluster, std::size_t busiest = 3);

}  // namespace weightlift::sim
