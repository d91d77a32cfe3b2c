#include "weightlift/compare/launch.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace weightlift::compare {

namespace {

std::uint64_t nearest_median(std::vector<std::uint64_t>& values) {
    if (values.empty()) return record::kNotMeasured;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::vector<PhaseMedians> phase_medians(const std::vector<record::Sample>& samples,
                                        std::size_t ranks) {
    std::vector<PhaseMedians> medians(ranks);
    std::vector<std::uint64_t> values;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t phase = 0; phase < record::kPhases; ++phase) {
            values.clear();
            for (const record::Sample& sample : samples)
                if (record::is_counted(sample) && rank < sample.phase_ns.size() &&
                    sample.phase_ns[rank][phase] != record::kNotMeasured)
                    values.push_back(sample.phase_ns[rank][phase]);
            medians[rank][phase] = nearest_median(values);
        }
    return medians;
}

/// How a case was set up, beside its key: name and value.
using Settings = std::map<std::string, std::string>;

Settings settings_of(const record::CaseInfo& info) {
    Settings settings{{"bytes", std::to_string(info.bytes)},
                      {"plan", fmt::format("{:016x}", info.plan_digest)},
                      {"verify", info.verify},
                      {"memory", info.memory}};
    const auto options = nlohmann::json::parse(info.options, nullptr, false);
    if (!options.is_object()) {
        settings["options"] = info.options;
        return settings;
    }
    for (const auto& [name, value] : options.items())
        settings[name] = value.is_string()
                             ? value.get<std::string>()
                             : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return settings;
}

/// Names of the run's cases, in its order; equal for repetitions.
std::vector<std::string> names_of(const record::RunRecord& run) {
    std::map<std::string, std::map<std::string, std::set<std::string>>> values;  // by key, setting
    for (const record::CaseRecord& one : run.cases) {
        if (one.samples.empty()) continue;  // failed before it was planned
        for (const auto& [setting, value] : settings_of(one.info))
            values[one.info.key][setting].insert(value);
    }
    std::vector<std::string> names;
    for (const record::CaseRecord& one : run.cases) {
        std::vector<std::string> own;
        for (const auto& [setting, value] : settings_of(one.info))
            if (values[one.info.key][setting].size() > 1)
                own.push_back(fmt::format("{} {}", setting, value));
        names.push_back(own.empty() ? one.info.key
                                    : fmt::format("{} [{}]", one.info.key, fmt::join(own, ", ")));
    }
    return names;
}

}  // namespace

std::vector<Launch> launches_of(const record::RunRecord& run) {
    std::vector<Launch> launches;
    const std::vector<std::string> names = names_of(run);
    for (std::size_t i = 0; i < run.cases.size(); ++i) {
        if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
            names.begin() + static_cast<std::ptrdiff_t>(i))
            continue;  // a repetition
        const record::CaseRecord& one = run.cases[i];
        Launch& launch = launches.emplace_back();
        launch.status = run.status;
        launch.exit_code = run.exit_code;
        if (one.outcome) {
            launch.status = one.outcome->status;
            launch.exit_code = one.outcome->exit_code;
        }
        std::vector<record::Sample> samples = one.samples;
        for (std::size_t r = i + 1; r < run.cases.size(); ++r) {
            if (names[r] != names[i]) continue;
            const record::CaseRecord& again = run.cases[r];
            samples.insert(samples.end(), again.samples.begin(), again.samples.end());
            if (launch.exit_code == 0 && again.outcome && again.outcome->exit_code != 0) {
                launch.status = again.outcome->status;
                launch.exit_code = again.outcome->exit_code;
            }
        }
        launch.name = names[i];
        launch.path = run.path;
        launch.run_uuid = run.run.run_uuid;
        launch.created_utc = run.run.created_utc;
        launch.tool_version = run.run.tool_version;
        launch.git = run.run.git;
        launch.provenance = run.run.provenance;
        launch.ranks = one.ranks.empty() ? run.run.ranks : one.ranks;
        launch.info = one.info;
        launch.summary = record::summarize(one.info, samples);
        launch.phases = phase_medians(samples, launch.ranks.size());
    }
    return launches;
}

}  // namespace weightlift::compare
