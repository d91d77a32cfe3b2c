// A push as fluid: what every flow gets at every moment, and when the last one ends. Pure.
//
// Modelled:
// - Max-min sharing: the rates of flows grow together until a port, a cut (uplinks of a leaf) or a
//   port's message rate is full; the flows through it stay there, the others grow on.
// - Order. Rotated: a source goes round its destinations by chunks, a window open to each, so that
//   all its flows are under way at once; and it writes to any one of d destinations for 1/d of the
//   time. Plan: it serves one destination after the other, in ascending order.
// - Incast: a port's receive rate falls with the number of sources writing to it at once (see
//   Cluster::incast_writers).
// - Latency: once, after the last byte.
// Not modelled: single chunks and windows (a flow is never held up by a window), congestion control
// and its start, copies and their engines inside ranks, posting, other users of the network.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weightlift/sim/predict.hpp"

namespace weightlift::sim {

enum class Order : std::uint8_t { Plan, Rotated };

struct Simulation {
    double seconds = 0;
    std::vector<double> flow_seconds;  ///< when each flow's last byte left, in order of the flows
    double most_writers = 0;           ///< largest number of sources writing to one NIC at once
    std::uint64_t moments = 0;         ///< at which rates were worked out anew
};

/// Deterministic. Beyond some thousand flows, ends that lie closer together than 1/2000 of the
/// floor count as one moment, which can make the result longer by less than 1 %, never shorter.
[[nodiscard]] Simulation simulate(std::span<const Flow> flows, const Fabric& fabric, Order order);

}  // namespace weightlift::sim
