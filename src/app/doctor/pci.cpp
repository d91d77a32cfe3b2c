#include "pci.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

namespace weightlift::app::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kConfigBytes = 256, kExtendedBytes = 4096;

std::uint32_t word(std::span<const std::uint8_t> config, std::size_t at, std::size_t bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
        value |= static_cast<std::uint32_t>(config[at + i]) << (8 * i);
    return value;
}

std::string device_folder(const std::string& root, const std::string& address) {
    return root + "/sys/bus/pci/devices/" + address;
}

}  // namespace

std::optional<bool> relaxed_ordering(std::span<const std::uint8_t> config) {
    constexpr std::uint8_t kExpress = 0x10;
    constexpr std::uint32_t kEnable = 1U << 4;  // of the Device Control register
    if (config.size() < kConfigBytes) return std::nullopt;
    // A list of at most 48 capabilities, four bytes each at least.
    std::size_t at = config[0x34] & 0xfcU;
    for (int hops = 0; at >= 0x40 && hops < 48; ++hops, at = config[at + 1] & 0xfcU) {
        if (config[at] != kExpress) continue;
        if (at + 10 > kConfigBytes) return std::nullopt;
        return (word(config, at + 8, 2) & kEnable) != 0;
    }
    return std::nullopt;
}

Redirect acs_redirects(std::span<const std::uint8_t> config) {
    constexpr std::uint32_t kAcs = 0x000d;
    constexpr std::uint32_t kRequests = 1U << 2, kCompletions = 1U << 3;
    if (config.size() < kExtendedBytes) return Redirect::Unreadable;
    std::size_t at = 0x100;
    for (int hops = 0; at >= 0x100 && at + 8 <= kExtendedBytes && hops < 960; ++hops) {
        const std::uint32_t header = word(config, at, 4);
        if ((header & 0xffffU) == kAcs) {
            const std::uint32_t control = word(config, at + 6, 2);
            return (control & (kRequests | kCompletions)) != 0 ? Redirect::Yes : Redirect::No;
        }
        at = header >> 20 & 0xffcU;
    }
    return Redirect::No;
}

std::vector<std::uint8_t> read_config(const std::string& root, const std::string& address) {
    std::ifstream file(device_folder(root, address) + "/config", std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    return {bytes.begin(), bytes.end()};
}

std::vector<std::string> bridges_above(const std::string& root, const std::string& address) {
    // /sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0
    static const std::regex kPci("[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]");
    std::error_code error;
    const fs::path path = fs::canonical(device_folder(root, address), error);
    std::vector<std::string> bridges;
    for (const fs::path& part : path)
        if (std::regex_match(part.string(), kPci) && part != address)
            bridges.push_back(part.string());
    return bridges;
}

}  // namespace weightlift::app::doctor
