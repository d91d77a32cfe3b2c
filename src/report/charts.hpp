// Drawings of the page: inline SVG, coloured by the page's style sheet.
#pragma once

#include <string>

#include "study.hpp"

namespace weightlift::report {

/// Time per iteration, from 0 to `top_ns`, and below it which rank was the last. Longer ones
/// are drawn at the top edge.
[[nodiscard]] std::string time_chart(const Entry& entry, double top_ns);
/// Where time_chart's axis should end for this case.
[[nodiscard]] double time_chart_top(const Entry& entry);

/// Bandwidth of every case over the mean size of its copies, and at its floor.
[[nodiscard]] std::string bandwidth_chart(const Study& study);

/// Bytes of one push by source and destination. Above kMapSide ranks on a side, neighbours share a
/// cell.
[[nodiscard]] std::string traffic_map(const Entry& entry);
inline constexpr std::size_t kMapSide = 24;

}  // namespace weightlift::report
