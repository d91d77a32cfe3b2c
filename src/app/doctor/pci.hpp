// What PCI configuration space says of a device's way to memory and to its neighbours.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weightlift::app::doctor {

/// Nothing where the bytes given do not reach that far (without root the first 64 can be read), or
/// the device is not PCI Express.
[[nodiscard]] std::optional<bool> relaxed_ordering(std::span<const std::uint8_t> config);

enum class Redirect : std::uint8_t { Unreadable, No, Yes };
/// Whether a bridge's access control services (ACS) send what its neighbours have for each other up
/// to the root complex.
[[nodiscard]] Redirect acs_redirects(std::span<const std::uint8_t> config);

/// Empty where there is no such device.
[[nodiscard]] std::vector<std::uint8_t> read_config(const std::string& root,
                                                    const std::string& address);
/// Addresses of the bridges above a device, the outermost first.
[[nodiscard]] std::vector<std::string> bridges_above(const std::string& root,
                                                     const std::string& address);

}  // namespace weightlift::app::doctor
