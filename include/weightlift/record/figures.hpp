// What tables and pages show of a case besides its Summary, and how numbers are written. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weightlift/record/run_record.hpp"

namespace weightlift::record {

/// Milliseconds with three or four significant digits ("0.412", "12.34", "1234"), or "-".
[[nodiscard]] std::string show_ms(std::uint64_t ns);
/// Gigabytes per second ("5.61"), or "-" for 0.
[[nodiscard]] std::string show_rate(double bytes_per_second);

/// "right", "WRONG", or "N/A" where nothing was checked.
[[nodiscard]] const char* show_check(Validity validity);
/// Whether any push was checked.
[[nodiscard]] bool is_checked(const std::vector<Sample>& samples);
/// Largest clock error or release skew as a fraction of the time, over the counted iterations.
[[nodiscard]] double worst_clock(const std::vector<Sample>& samples);
/// Above this, a case is marked: its times are not to be trusted to the last digit.
inline constexpr double kClockLimit = 0.01;

/// The rank that was done last; the lowest one where several were.
[[nodiscard]] std::optional<std::size_t> last_rank(const Sample& sample);
/// By phase, the median over the iterations after warm-up of the slowest rank's time.
[[nodiscard]] PhaseTimes median_phases(const std::vector<Sample>& samples);
/// By set-up phase, the slowest rank's time.
[[nodiscard]] SetupTimes slowest_setup(const std::vector<SetupTimes>& setup_ns);

}  // namespace weightlift::record
