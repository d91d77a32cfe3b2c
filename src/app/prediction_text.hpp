// What a cluster makes of a plan, as people read it: ports, bounds, simulated times.
#pragma once

#include <string>

#include "weightlift/sim/simulate.hpp"

namespace weightlift::app {

/// "753.8 ms".
[[nodiscard]] std::string milliseconds(double seconds);
/// A port with the ranks behind it: "NIC 0 of node 2 (rank 16), send".
[[nodiscard]] std::string name_of(const sim::PortId& port, const sim::Fabric& fabric);

/// The busiest ports and the lower bound, a line each.
[[nodiscard]] std::string prediction_text(const sim::Prediction& prediction,
                                          const sim::Fabric& fabric, Bytes bytes);
/// Simulated time against the bound.
[[nodiscard]] std::string simulation_text(const sim::Simulation& simulation,
                                          const sim::Prediction& prediction);

}  // namespace weightlift::app
