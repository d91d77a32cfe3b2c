#include "weightlift/sim/cluster.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/error.hpp"

namespace weightlift::sim {

namespace {

constexpr std::string_view kFields[] = {
    "name",
    "placement",
    "ranks_per_node",
    "ports_per_node",
    "port_gbytes_per_s",
    "port_messages_per_s",
    "latency_us",
    "nvlink_domain_ranks",
    "nvlink_gbytes_per_s",
    "memory_gbytes_per_s",
    "copy_gbytes_per_s",
    "leaf_nodes",
    "oversubscription",
    "incast_writers",
    "incast_rate_share",
};

class Fields {
public:
    explicit Fields(std::span<const std::pair<std::string, std::string>> fields) : fields_(fields) {
        // A misspelt optional field would silently leave its term out of the prediction.
        for (const auto& [name, text] : fields_)
            if (std::find(std::begin(kFields), std::end(kFields), name) == std::end(kFields))
                throw ConfigError(fmt::format("cluster: {} is not a field; fields are {}", name,
                                              fmt::join(kFields, ", ")));
    }

    /// Without a fallback the field must be there.
    [[nodiscard]] std::string text(std::string_view field,
                                   std::optional<std::string> fallback) const {
        for (const auto& [name, value] : fields_)
            if (name == field) return value;
        if (fallback) return *fallback;
        throw ConfigError(fmt::format("cluster: field {} is missing", field));
    }

    [[nodiscard]] double number(std::string_view field, double low,
                                std::optional<double> fallback) const {
        const std::string given =
            text(field, fallback ? std::optional<std::string>("") : std::nullopt);
        if (given.empty() && fallback) return *fallback;
        double value = 0;
        const char* end = given.data() + given.size();
        const auto parsed = std::from_chars(given.data(), end, value);
        if (parsed.ec != std::errc{} || parsed.ptr != end || !std::isfinite(value) || value < low)
            throw ConfigError(fmt::format("cluster: {} is {}, but must be a number of at least {}",
                                          field, given, low));
        return value;
    }

    [[nodiscard]] int count(std::string_view field, int low, std::optional<int> fallback) const {
        const double value = number(field, low, fallback);
        if (value > std::numeric_limits<int>::max() || value != std::floor(value))
            throw ConfigError(fmt::format(
                "cluster: {} is {}, but must be a whole number, and fit in 32 bits", field, value));
        return static_cast<int>(value);
    }

private:
    std::span<const std::pair<std::string, std::string>> fields_;
};

Placement placement_of(const std::string& text) {
    if (text == "separate") return Placement::Separate;
    if (text == "packed") return Placement::Packed;
    throw ConfigError(
        fmt::format("cluster: placement is {}, but must be separate or packed", text));
}

}  // namespace

Cluster make_cluster(std::span<const std::pair<std::string, std::string>> texts) {
    const Fields fields(texts);
    constexpr double kLeastRate = 1e-6;
    Cluster c;
    c.name = fields.text("name", std::nullopt);
    c.placement = placement_of(fields.text("placement", "separate"));
    c.ranks_per_node = fields.count("ranks_per_node", 1, std::nullopt);
    c.ports_per_node = fields.count("ports_per_node", 1, std::nullopt);
    c.port_rate = 1e9 * fields.number("port_gbytes_per_s", kLeastRate, std::nullopt);
    c.port_message_rate = fields.number("port_messages_per_s", 0, 0);
    c.latency = 1e-6 * fields.number("latency_us", 0, 0);
    c.nvlink_domain_ranks = fields.count("nvlink_domain_ranks", 0, 0);
    if (c.nvlink_domain_ranks > 0)
        c.nvlink_rate = 1e9 * fields.number("nvlink_gbytes_per_s", kLeastRate, std::nullopt);
    c.memory_rate = 1e9 * fields.number("memory_gbytes_per_s", 0, 0);
    c.copy_rate = 1e9 * fields.number("copy_gbytes_per_s", 0, 0);
    if (c.copy_rate > 0 && c.memory_rate == 0)
        throw ConfigError(
            "cluster: copy_gbytes_per_s needs memory_gbytes_per_s, without which "
            "ranks of a node write through its NICs");
    c.leaf_nodes = fields.count("leaf_nodes", 0, 0);
    c.oversubscription = fields.number("oversubscription", 1, 1);
    c.incast_writers = fields.count("incast_writers", 0, 0);
    c.incast_rate_share = fields.number("incast_rate_share", 0.01, 1);
    if (c.incast_rate_share > 1)
        throw ConfigError(fmt::format("cluster: incast_rate_share is {}, but must be at most 1",
                                      c.incast_rate_share));
    return c;
}

Place place_of(Rank rank, Rank trainers, const Cluster& c) {
    const auto per_node = static_cast<Rank>(c.ranks_per_node);
    Rank slot = rank;
    if (rank >= trainers && c.placement == Placement::Separate)
        slot = (trainers + per_node - 1) / per_node * per_node + rank - trainers;
    Place place;
    place.node = slot / per_node;
    place.port = static_cast<int>(std::int64_t{slot % per_node} * c.ports_per_node / per_node);
    if (c.nvlink_domain_ranks > 0) place.domain = slot / c.nvlink_domain_ranks;
    if (c.leaf_nodes > 0) place.leaf = place.node / c.leaf_nodes;
    return place;
}

}  // namespace weightlift::sim
