#include "study.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace weightlift::report {

namespace {

using Options = std::map<std::string, std::string>;

void flatten(const nlohmann::json& value, const std::string& name, Options& out) {
    if (value.is_object())
        for (const auto& [key, member] : value.items())
            flatten(member, name.empty() ? key : fmt::format("{}.{}", name, key), out);
    else
        out[name] = value.is_string() ? value.get<std::string>() : value.dump();
}

Options options_of(const record::CaseInfo& info) {
    Options options{{"verify", info.verify}, {"memory", info.memory}};
    // Without exceptions: a file of another tool may hold any text here.
    const auto parsed = nlohmann::json::parse(info.options, nullptr, false);
    if (parsed.is_object()) flatten(parsed, "", options);
    return options;
}

/// By key, the options whose values differ between cases of one file.
std::map<std::string, std::set<std::string>> telling_options(
    const std::vector<record::RunRecord>& runs) {
    std::map<std::string, std::set<std::string>> telling;
    for (const record::RunRecord& run : runs) {
        std::map<std::string, Options> first;
        for (const record::CaseRecord& one : run.cases) {
            const Options options = options_of(one.info);
            const Options& reference = first.try_emplace(one.info.key, options).first->second;
            for (const auto& [name, value] : options) {
                const auto at = reference.find(name);
                if (at == reference.end() || at->second != value)
                    telling[one.info.key].insert(name);
            }
        }
    }
    return telling;
}

}  // namespace

Study::Study(const std::vector<record::RunRecord>& files) : runs(files) {
    const auto telling = telling_options(runs);
    // Other bytes, other ranks: two plans under one name are two cases.
    std::map<std::pair<std::string, std::uint64_t>, std::size_t> known;
    for (std::size_t file = 0; file < runs.size(); ++file)
        for (std::size_t number = 0; number < runs[file].cases.size(); ++number) {
            const record::CaseRecord& one = runs[file].cases[number];
            std::string name = one.info.key;
            if (const auto found = telling.find(one.info.key); found != telling.end()) {
                const Options options = options_of(one.info);
                for (const std::string& option : found->second)
                    if (const auto value = options.find(option); value != options.end())
                        name += fmt::format(" {}={}", option, value->second);
            }
            const auto [at, is_new] =
                known.try_emplace({name, one.info.plan_digest}, groups.size());
            if (is_new) groups.push_back({name, {}});
            groups[at->second].entries.push_back(
                {file, number, &runs[file], &one, record::summarize(one.info, one.samples)});
        }
    std::map<std::string, std::size_t> plans;
    for (const Group& group : groups) ++plans[group.name];
    for (Group& group : groups)
        if (plans[group.name] > 1)
            group.name += fmt::format(" plan {:016x}", group.entries.front().one->info.plan_digest);
}

std::string file_label(std::size_t file) {
    return file < 26 ? std::string(1, static_cast<char>('A' + file)) : std::to_string(file + 1);
}

std::string rank_label(const Entry& entry, std::size_t rank) {
    const auto& ranks = entry.one->ranks.empty() ? entry.run->run.ranks : entry.one->ranks;
    const auto found = std::find_if(ranks.begin(), ranks.end(), [&](const record::RankInfo& r) {
        return std::cmp_equal(r.rank, rank);
    });
    if (found == ranks.end()) return fmt::format("rank {}", rank);
    return fmt::format("rank {}, {}{}", rank, found->host,
                       found->nic.empty() ? "" : ", " + found->nic);
}

}  // namespace weightlift::report
