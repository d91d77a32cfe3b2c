#include <fstream>
#include <initializer_list>

#include <fmt/format.h>

#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {
namespace {

/// Drivers without the counter give no file, or one that says "N/A (no PMA)".
std::optional<std::uint64_t> number_in(const std::string& path) {
    std::ifstream file(path);
    std::uint64_t value = 0;
    if (file >> value) return value;
    return std::nullopt;
}

/// Sum of those that exist.
std::optional<std::uint64_t> sum_of(const std::string& folder,
                                    std::initializer_list<const char*> names) {
    std::optional<std::uint64_t> sum;
    for (const char* name : names)
        if (const auto value = number_in(folder + name)) sum = sum.value_or(0) + *value;
    return sum;
}

struct Names {
    const char* port;  ///< in counters/, as InfiniBand's performance management defines it
    /// In hw_counters/, per family of drivers; members of one list add up.
    std::initializer_list<std::initializer_list<const char*>> hardware;
};

std::optional<std::uint64_t> read_one(const std::string& folder, std::uint64_t unit,
                                      const Names& names) {
    if (const auto value = number_in(folder + "counters/" + names.port)) return *value * unit;
    for (const auto& family : names.hardware)
        if (const auto value = sum_of(folder + "hw_counters/", family)) return value;
    return std::nullopt;
}

}  // namespace

PortCounters read_port_counters(const std::string& nic, int port, const std::string& sysfs) {
    const std::string folder = fmt::format("{}/class/infiniband/{}/ports/{}/", sysfs, nic, port);
    // port_*_data counts units of four bytes. The families: bnxt_re and efa, irdma, rxe.
    return {
        read_one(folder, 4, {"port_xmit_data", {{"tx_bytes"}, {"ip4OutOctets", "ip6OutOctets"}}}),
        read_one(folder, 4, {"port_rcv_data", {{"rx_bytes"}, {"ip4InOctets", "ip6InOctets"}}}),
        read_one(folder, 1,
                 {"port_xmit_packets", {{"tx_pkts"}, {"ip4OutPkts", "ip6OutPkts"}, {"sent_pkts"}}}),
        read_one(folder, 1,
                 {"port_rcv_packets", {{"rx_pkts"}, {"ip4InPkts", "ip6InPkts"}, {"rcvd_pkts"}}}),
    };
}

}  // namespace weightlift::transport
