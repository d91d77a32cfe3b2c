#include "weightlift/compare/gate.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace weightlift::compare {

namespace {

/// Provenance that is hardware; the rest is software and surroundings.
constexpr const char* kHardware[] = {"cpu", "gpu"};
/// Different in every job, and no reason for anything.
constexpr std::string_view kPerJob[] = {"SLURM_JOB_ID", "SLURM_STEP_ID"};

std::string provenance(const Launch& launch, std::string_view name) {
    for (const auto& [known, value] : launch.provenance)
        if (known == name) return value;
    return {};
}

std::string placement(const Launch& launch) {
    std::map<std::int32_t, std::vector<std::string>> by_node;
    for (const record::RankInfo& rank : launch.ranks)
        by_node[rank.node].push_back(fmt::format("{} {}", rank.role, rank.plan_rank));
    std::vector<std::string> nodes;
    for (const auto& [node, ranks] : by_node)
        nodes.push_back(fmt::format("{}", fmt::join(ranks, ", ")));
    return fmt::format("{}", fmt::join(nodes, " | "));
}

template <class Member>
std::size_t ranks_with(const Launch& launch, Member member) {
    return static_cast<std::size_t>(
        std::count_if(launch.ranks.begin(), launch.ranks.end(),
                      [&](const record::RankInfo& rank) { return !(rank.*member).empty(); }));
}

using Values = std::map<std::string, std::set<std::string>>;

void add_options(const Launch& launch, Values& values) {
    const auto options = nlohmann::json::parse(launch.info.options, nullptr, false);
    if (!options.is_object()) {
        values["options"].insert(launch.info.options);
        return;
    }
    for (const auto& [name, value] : options.items())
        values["option " + name].insert(
            value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

Values values_of(std::span<const Launch* const> launches) {
    Values values;
    for (const Launch* launch : launches) {
        values["tool version"].insert(launch->tool_version);
        values["git"].insert(launch->git);
        for (const auto& [name, value] : launch->provenance)
            if (std::find(std::begin(kPerJob), std::end(kPerJob), name) == std::end(kPerJob))
                values[name].insert(value);
        std::set<std::string> hosts;
        for (const record::RankInfo& rank : launch->ranks) {
            hosts.insert(rank.host);
            if (!rank.gpu_uuid.empty()) values["GPU"].insert(rank.gpu_uuid);
            values["registration"].insert(rank.registration);
            if (rank.nic.empty()) continue;
            values["NIC"].insert(rank.nic);
            values["MTU"].insert(std::to_string(rank.mtu));
            values["GID index"].insert(std::to_string(rank.gid_index));
        }
        values["hosts"].merge(hosts);
        add_options(*launch, values);
    }
    return values;
}

/// "a, b, c and 5 more".
std::string show(const std::set<std::string>& values) {
    constexpr std::size_t kShown = 4;
    if (values.empty()) return "none";
    std::string text;
    std::size_t shown = 0;
    for (const std::string& value : values) {
        if (shown == kShown) {
            text += fmt::format(" and {} more", values.size() - kShown);
            break;
        }
        text += (shown++ > 0 ? ", " : "") + (value.empty() ? "none" : value);
    }
    return text;
}

}  // namespace

std::vector<Difference> gate(const Launch& base, const Launch& next) {
    std::vector<Difference> differences;
    const auto expect = [&](const char* field, const std::string& a, const std::string& b) {
        if (a != b) differences.push_back({field, a.empty() ? "none" : a, b.empty() ? "none" : b});
    };
    const record::CaseInfo &a = base.info, &b = next.info;
    const auto digest = [](std::uint64_t value) { return fmt::format("{:016x}", value); };
    if (a.key != b.key) {
        expect("model", a.model, b.model);
        expect("trainer", a.trainer, b.trainer);
        expect("rollout", a.rollout, b.rollout);
        expect("strategy", a.strategy, b.strategy);
    }
    expect("plan digest", digest(a.plan_digest), digest(b.plan_digest));
    expect("bytes", std::to_string(a.bytes), std::to_string(b.bytes));
    expect("transport", a.transport, b.transport);
    expect("verification", a.verify, b.verify);
    expect("memory", a.memory, b.memory);
    for (const char* name : kHardware) {
        // Absent where it was not recorded: then the difference is named, not judged.
        const std::string before = provenance(base, name), after = provenance(next, name);
        if (!before.empty() && !after.empty()) expect(name, before, after);
    }
    expect("ranks", std::to_string(base.ranks.size()), std::to_string(next.ranks.size()));
    if (base.ranks.size() == next.ranks.size())
        expect("ranks by node", placement(base), placement(next));
    using record::RankInfo;
    expect("ranks with a GPU", std::to_string(ranks_with(base, &RankInfo::gpu_uuid)),
           std::to_string(ranks_with(next, &RankInfo::gpu_uuid)));
    expect("ranks with a NIC", std::to_string(ranks_with(base, &RankInfo::nic)),
           std::to_string(ranks_with(next, &RankInfo::nic)));
    return differences;
}

std::vector<Difference> provenance_differences(std::span<const Launch* const> base,
                                               std::span<const Launch* const> next) {
    if (base.empty() || next.empty()) return {};
    Values before = values_of(base), after = values_of(next);
    for (const auto& [name, values] : after) before.try_emplace(name);
    std::vector<Difference> differences;
    for (const auto& [name, values] : before)
        if (values != after[name]) differences.push_back({name, show(values), show(after[name])});
    return differences;
}

}  // namespace weightlift::compare
