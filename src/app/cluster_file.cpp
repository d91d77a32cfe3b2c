#include "cluster_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightlift/base/error.hpp"

#include "catalog.hpp"
#include "toml.hpp"

namespace weightlift::app {

sim::Cluster parse_cluster(std::string_view toml) {
    std::vector<CLI::ConfigItem> items;
    try {
        items = read_toml(toml);
    } catch (const ConfigError& error) {
        throw ConfigError(fmt::format("cluster: {}", error.what()));
    }
    std::vector<std::pair<std::string, std::string>> fields;
    for (const CLI::ConfigItem& item : items) {
        if (!item.parents.empty())
            throw ConfigError(fmt::format("cluster: [{}]: there are no sections", item.parents[0]));
        if (item.inputs.size() != 1)
            throw ConfigError(fmt::format("cluster: {} takes one value, and is given {}", item.name,
                                          item.inputs.size()));
        fields.emplace_back(item.name, item.inputs.front());
    }
    return sim::make_cluster(fields);
}

sim::Cluster load_cluster(const std::string& name_or_path) {
    return parse_cluster(cluster_text(name_or_path));
}

}  // namespace weightlift::app
