#include "job.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/error.hpp"

#include "../text.hpp"
#include "../toml.hpp"

namespace weightlift::app::sweep {

namespace {

constexpr std::string_view kSection = "cases";
/// Flags of push that are no part of a case.
constexpr std::string_view kNotOfCases[] = {"config", "help", "json",  "preflight",
                                            "quiet",  "role", "resume"};
constexpr std::string_view kOfTheSweep[] = {"output", "labels", "repetitions"};
/// What a key of the results file already says.
constexpr std::string_view kInKey[] = {"model", "trainer", "rollout", "strategy", "transport"};

template <std::size_t N>
bool is_among(std::string_view name, const std::string_view (&names)[N]) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

const std::string& only_value(const Axis& axis) {
    if (axis.values.size() != 1)
        throw ConfigError(
            fmt::format("{}: takes one value, and is given {}", axis.name, axis.values.size()));
    return axis.values.front();
}

Axis to_axis(const CLI::ConfigItem& item) {
    Axis axis{item.name, item.inputs};
    std::erase(axis.values, "");  // after the last comma of a list
    if (axis.values.empty()) throw ConfigError(fmt::format("{}: has no value", item.name));
    std::set<std::string> seen;
    for (const std::string& value : axis.values)
        if (!seen.insert(value).second)
            throw ConfigError(fmt::format("{}: {} is there twice", item.name, value));
    return axis;
}

/// What a section says, and all else from above.
std::vector<Axis> inherit(const std::vector<Axis>& above, std::vector<Axis> section) {
    std::vector<Axis> product;
    for (const Axis& axis : above) {
        const auto own = std::find_if(section.begin(), section.end(),
                                      [&](const Axis& a) { return a.name == axis.name; });
        product.push_back(own == section.end() ? axis : *own);
        if (own != section.end()) section.erase(own);
    }
    std::move(section.begin(), section.end(), std::back_inserter(product));
    return product;
}

}  // namespace

Job parse_job(std::string_view toml) {
    Job job;
    std::vector<Axis> above;
    std::vector<std::vector<Axis>> sections;
    for (const CLI::ConfigItem& item : read_toml(toml)) {
        const bool is_above = item.parents.empty();
        if (!is_above && (item.parents.size() > 1 || item.parents.front() != kSection))
            throw ConfigError(
                fmt::format("[{}]: the only sections are [[cases]]", item.fullname()));
        if (item.name == "++") sections.emplace_back();
        if (item.name == "++" || item.name == "--") continue;
        if (is_among(item.name, kNotOfCases))
            throw ConfigError(fmt::format("{}: is no part of a job", item.name));
        Axis axis = to_axis(item);
        if (!is_among(item.name, kOfTheSweep)) {
            (is_above ? above : sections.back()).push_back(std::move(axis));
            continue;
        }
        if (!is_above)
            throw ConfigError(
                fmt::format("{}: is for the whole sweep, above the first [[cases]]", item.name));
        if (axis.name == "output") job.output = only_value(axis);
        if (axis.name == "labels") job.labels = only_value(axis);
        if (axis.name == "repetitions")
            job.repetitions = parse_number(only_value(axis), 1, 1'000'000, "repetitions");
    }
    if (sections.empty()) sections.emplace_back();
    for (auto& section : sections) job.products.push_back(inherit(above, std::move(section)));
    return job;
}

std::vector<Settings> multiply(const Job& job) {
    constexpr std::size_t kMost = 100'000;
    std::vector<Settings> all;
    std::set<std::string> seen;
    for (const auto& product : job.products) {
        std::vector<Settings> cases(1);
        for (const Axis& axis : product) {
            if (cases.size() * axis.values.size() > kMost)
                throw ConfigError(fmt::format("more than {} cases", kMost));
            std::vector<Settings> longer;
            for (const Settings& settings : cases)
                for (const std::string& value : axis.values) {
                    longer.push_back(settings);
                    longer.back().emplace_back(axis.name, value);
                }
            cases = std::move(longer);
        }
        for (Settings& settings : cases) {
            if (!seen.insert(identity(settings)).second)
                throw ConfigError(fmt::format("two cases are equal: {}", identity(settings)));
            all.push_back(std::move(settings));
        }
    }
    return all;
}

std::string identity(const Settings& settings) {
    std::vector<std::string> parts;
    for (const auto& [name, value] : settings) parts.push_back(fmt::format("{}={}", name, value));
    std::sort(parts.begin(), parts.end());
    return fmt::format("{}", fmt::join(parts, " "));
}

std::vector<std::string> variants(const std::vector<Settings>& cases) {
    std::map<std::string, std::map<std::string, std::size_t>> uses;
    for (const Settings& settings : cases)
        for (const auto& [name, value] : settings) ++uses[name][value];
    std::vector<std::string> texts;
    for (const Settings& settings : cases) {
        std::vector<std::string> parts;
        for (const auto& [name, value] : settings)
            // A key says what was chosen, which another case may have asked for.
            if ((!is_among(name, kInKey) || value == "auto") && uses[name][value] < cases.size())
                parts.push_back(fmt::format("{}={}", name, value));
        texts.push_back(fmt::format("{}", fmt::join(parts, ",")));
    }
    return texts;
}

std::vector<std::string> to_arguments(const Settings& settings) {
    std::vector<std::string> arguments;
    for (const auto& [name, value] : settings) {
        if (name != "rollout") {
            arguments.push_back(fmt::format("--{}={}", name, value));
            continue;
        }
        for (std::string group : CLI::detail::split(value, '+'))
            arguments.push_back(fmt::format("--rollout={}", CLI::detail::trim(group)));
    }
    return arguments;
}

}  // namespace weightlift::app::sweep
