#include "brief.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/hash.hpp"

#include "case_table.hpp"

namespace weightlift::app {

namespace {

using record::CaseRecord;
using record::RunRecord;

std::size_t lines_in(const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::string provenance(const RunRecord& run, std::initializer_list<const char*> names) {
    std::vector<std::string> found;
    for (const char* name : names)
        for (const auto& [known, value] : run.run.provenance)
            if (known == name && !value.empty())
                found.push_back(value.find(name) == std::string::npos
                                    ? fmt::format("{} {}", name, value)
                                    : value);
    return fmt::format("{}", fmt::join(found, "; "));
}

std::string hosts_of(const RunRecord& run) {
    constexpr std::size_t kShown = 6;
    std::vector<std::string> hosts;
    for (const record::RankInfo& rank : run.run.ranks)
        if (std::find(hosts.begin(), hosts.end(), rank.host) == hosts.end())
            hosts.push_back(rank.host);
    const std::size_t count = hosts.size();
    hosts.resize(std::min(count, kShown));
    return fmt::format("{} ranks on {} host{}: {}{}", run.run.ranks.size(), count,
                       count == 1 ? "" : "s", fmt::join(hosts, ", "), count > kShown ? ", …" : "");
}

std::string header_of(const RunRecord& run) {
    std::string text = fmt::format("weightlift {} (git {}), results schema {}\n",
                                   run.run.tool_version, run.run.git, run.schema);
    text += fmt::format("status     {}{}\n", run.status,
                        run.exit_code >= 0 ? fmt::format(", exit code {}", run.exit_code) : "");
    text += fmt::format("created    {}\n", run.run.created_utc);
    text += fmt::format("command    {}\n", run.run.command_line);
    text += fmt::format("ran on     {}\n", hosts_of(run));
    if (const auto machine = provenance(run, {"cpu", "gpu", "kernel"}); !machine.empty())
        text += fmt::format("machine    {}\n", machine);
    const auto built =
        provenance(run, {"compiler", "mpi", "hdf5", "cuda", "driver", "nccl", "rdma-core"});
    if (!built.empty()) text += fmt::format("built with {}\n", built);
    return text;
}

/// "; slowest rank 12 on n7": of one case among several, which the table says nothing of.
std::string slowest(const RunRecord& run, const CaseRecord& one) {
    if (run.cases.size() < 2) return {};
    const record::Summary summary = record::summarize(one.info, one.samples);
    for (const record::RankInfo& rank : run.run.ranks)
        if (rank.rank == summary.slowest_rank)
            return fmt::format("; slowest rank {} on {}", rank.rank, rank.host);
    return {};
}

std::string describe(const RunRecord& run, const CaseRecord& one) {
    const auto& info = one.info;
    return fmt::format(
        "plan       {:016x}: {} from trainer {} to rollout {} over {}, {} memory; {} "
        "transfers, {} copies, verify {}{}\n",
        info.plan_digest, info.model, info.trainer, info.rollout, info.transport, info.memory,
        info.transfers, info.copies, info.verify, slowest(run, one));
}

/// The first cases, as many as fit into so many lines.
std::string cases_within(const RunRecord& run, std::size_t lines) {
    std::string fitting;
    for (std::size_t count = 1; count <= run.cases.size(); ++count) {
        const std::vector<CaseRecord> first(run.cases.begin(),
                                            run.cases.begin() + static_cast<std::ptrdiff_t>(count));
        std::string text;
        for (const CaseRecord& one : first) text += describe(run, one);
        text += "\n" + case_table(first, run.run.ranks);
        const std::size_t left = run.cases.size() - count;
        if (left > 0) text += fmt::format("… and {} more in the file\n", left);
        if (count > 1 && lines_in(text) > lines) break;
        fitting = std::move(text);
    }
    return fitting;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

void replace_word(std::string& text, const std::string& word, const std::string& by) {
    const auto equal = [](char a, char b) { return lower(a) == lower(b); };
    for (std::size_t from = 0;;) {
        const auto found = std::search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(),
                                       word.begin(), word.end(), equal);
        if (found == text.end()) return;
        const auto at = static_cast<std::size_t>(found - text.begin());
        const std::size_t end = at + word.size();
        if ((at > 0 && is_word(text[at - 1])) || (end < text.size() && is_word(text[end]))) {
            from = at + 1;
            continue;
        }
        text.replace(at, word.size(), by);
        from = at + by.size();
    }
}

}  // namespace

std::string brief(const RunRecord& run) {
    std::string text = header_of(run);
    std::vector<std::string> events;
    constexpr std::size_t kEvents = 3, kEventWidth = 160;
    for (const record::Event& event : run.events)
        if (event.kind != "rows" && event.kind != "staging slots" && events.size() < kEvents)
            events.push_back(fmt::format("event      rank {}, {}: {:.{}}\n", event.rank, event.kind,
                                         event.text, kEventWidth));
    text += cases_within(run, kBriefLines - lines_in(text) - events.size());
    for (const std::string& event : events) text += event;
    // A case of its own can be longer: NICs, transports.
    std::size_t end = 0;
    for (std::size_t line = 0; line + 1 < kBriefLines && end != std::string::npos; ++line)
        end = text.find('\n', end + (line > 0 ? 1 : 0));
    if (lines_in(text) > kBriefLines)
        text = text.substr(0, end + 1) +
               fmt::format("… {} lines left out\n", lines_in(text) - kBriefLines + 1);
    return text;
}

std::string without_hosts(std::string text, const RunRecord& run) {
    std::vector<std::pair<std::string, std::string>> names;  // name, replacement
    std::set<std::string> seen;
    for (const record::RankInfo& rank : run.run.ranks) {
        if (rank.host.empty()) continue;
        const std::string brief_name = rank.host.substr(0, rank.host.find('.'));
        // With the run mixed in, the hash of a likely name cannot be looked up.
        const std::uint64_t hash = mix(hash_name(run.run.run_uuid), hash_name(brief_name));
        for (const std::string& name : {rank.host, brief_name})
            if (seen.insert(name).second)
                names.emplace_back(name, fmt::format("host-{:08x}", hash >> 32));
    }
    std::stable_sort(names.begin(), names.end(),
                     [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
    for (const auto& [name, by] : names) replace_word(text, name, by);
    return text;
}

}  // namespace weightlift::app
