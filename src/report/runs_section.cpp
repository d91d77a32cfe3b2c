#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "html.hpp"
#include "sections.hpp"

namespace weightlift::report {

namespace {

using record::RankInfo;
using record::RunRecord;

/// "n041, n042", or "32: n001 … n032".
std::string short_list(const std::set<std::string>& names) {
    if (names.empty()) return "none";
    if (names.size() <= 4) return fmt::format("{}", fmt::join(names, ", "));
    return fmt::format("{}: {} … {}", names.size(), *names.begin(), *names.rbegin());
}

std::string outcome_class(const RunRecord& run) {
    if (run.status == "complete") return "good";
    return run.status == "running" ? "odd" : "bad";
}

std::string run_row(const RunRecord& run, std::size_t file, bool has_labels) {
    std::set<std::string> hosts, nics, gpus;
    std::size_t trainers = 0, engines = 0;
    bool plays_roles = false;
    for (const RankInfo& rank : run.run.ranks) {
        hosts.insert(rank.host);
        if (!rank.nic.empty()) nics.insert(rank.nic);
        if (!rank.gpu_uuid.empty()) gpus.insert(rank.gpu_uuid);
        if (rank.role == "trainer") ++trainers;
        // In a sweep each case has roles of its own.
        plays_roles = plays_roles || rank.role == "trainer" || rank.role == "rollout";
        engines = std::max(engines, static_cast<std::size_t>(std::max(0, rank.engine + 1)));
    }
    const std::size_t all = run.run.ranks.size(), rollouts = all - trainers;
    const std::string roles =
        plays_roles
            ? fmt::format("{} trainer{}, {} rollout{} in {} engine{}", trainers,
                          trainers == 1 ? "" : "s", rollouts, rollouts == 1 ? "" : "s", engines,
                          engines == 1 ? "" : "s")
            : fmt::format("{} rank{}, {} cases", all, all == 1 ? "" : "s", run.cases.size());
    return fmt::format(
        R"(<tr><td>{}</td><td class="path">{}</td><td class="{}">{}{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{} <small>{}</small></td>{}</tr>)"
        "\n",
        file_badge(file), escape(run.path), outcome_class(run), escape(run.status),
        run.exit_code > 0 ? fmt::format(", exit code {}", run.exit_code) : "",
        escape(run.run.created_utc), roles, escape(short_list(hosts)),
        gpus.empty() ? "none" : std::to_string(gpus.size()), escape(short_list(nics)),
        escape(run.run.tool_version), escape(run.run.git),
        has_labels ? "<td>" + escape(run.run.labels) + "</td>" : "");
}

/// Name by name over all files; what differs is marked.
std::string provenance_table(const Study& study) {
    std::vector<std::string> names;
    std::vector<std::map<std::string, std::string>> values;
    for (const RunRecord& run : study.runs) {
        auto& mine = values.emplace_back();
        const auto add = [&](const std::string& name, const std::string& value) {
            mine[name] = value;
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        };
        add("command line", run.run.command_line);
        add("run_uuid", run.run.run_uuid);
        add("finished_utc", run.finished_utc);
        for (const auto& [name, value] : run.run.provenance) add(name, value);
    }
    std::string out = "<table class=\"text\"><thead><tr><th></th>";
    for (std::size_t file = 0; file < values.size(); ++file)
        out += "<th>" + file_badge(file) + "</th>";
    out += "</tr></thead><tbody>\n";
    for (const std::string& name : names) {
        const auto value_of = [&](const auto& mine) {
            const auto found = mine.find(name);
            return found == mine.end() ? std::string("-") : found->second;
        };
        const bool differs = std::any_of(values.begin(), values.end(), [&](const auto& mine) {
            return value_of(mine) != value_of(values.front());
        });
        out += fmt::format("<tr{}><th>{}</th>", differs ? " class=\"differs\"" : "", escape(name));
        for (const auto& mine : values)
            out += "<td><code>" + escape(value_of(mine)) + "</code></td>";
        out += "</tr>\n";
    }
    return out + "</tbody></table>\n";
}

std::string ranks_table(const RunRecord& run) {
    std::string out =
        "<table class=\"text\"><thead>" +
        row({"rank", "plan rank", "role", "engine", "engine rank", "host", "local rank", "GPU",
             "NIC", "GID index", "MTU", "registration", "weights"},
            "th") +
        "</thead><tbody>\n";
    const auto some = [](const std::string& text) { return text.empty() ? "-" : text; };
    const auto index = [](std::int32_t n) { return n < 0 ? "-" : std::to_string(n); };
    for (const RankInfo& r : run.run.ranks)
        out += row({std::to_string(r.rank), std::to_string(r.plan_rank), r.role, index(r.engine),
                    index(r.engine_rank), r.host, std::to_string(r.local_rank),
                    r.gpu_uuid.empty() ? "-" : r.gpu_uuid + " " + r.gpu_pci, some(r.nic),
                    index(r.gid_index), r.mtu == 0 ? "-" : std::to_string(r.mtu),
                    some(r.registration), human_bytes(r.weight_bytes)});
    return out + "</tbody></table>\n";
}

std::string events_table(const Study& study) {
    std::string rows;
    for (std::size_t file = 0; file < study.runs.size(); ++file)
        for (const record::Event& event : study.runs[file].events)
            rows += fmt::format(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td "
                "class=\"words\">{}</td></tr>\n",
                file_badge(file), escape(event.time_utc), event.rank, escape(event.kind),
                escape(event.text));
    if (rows.empty()) return "<p>No run recorded an event.</p>\n";
    return "<table class=\"text\"><thead>" + row({"file", "time", "rank", "kind", "event"}, "th") +
           "</thead><tbody>\n" + rows + "</tbody></table>\n";
}

}  // namespace

std::string runs_section(const Study& study) {
    const bool has_labels =
        std::any_of(study.runs.begin(), study.runs.end(),
                    [](const RunRecord& run) { return !run.run.labels.empty(); });
    std::string out =
        "<section id=\"runs\"><h2>What ran where</h2>\n<div class=\"scroll\"><table "
        "class=\"text\"><thead>" +
        row({"", "file", "status", "created", "ranks", "hosts", "GPUs", "NICs", "weightlift",
             has_labels ? "labels" : ""},
            "th") +
        "</thead><tbody>\n";
    for (std::size_t file = 0; file < study.runs.size(); ++file)
        out += run_row(study.runs[file], file, has_labels);
    out += "</tbody></table></div>\n";
    out += "<details><summary>Command lines and provenance</summary><div class=\"scroll\">\n" +
           provenance_table(study) + "</div></details>\n";
    out += "<details><summary>Ranks</summary>\n";
    for (std::size_t file = 0; file < study.runs.size(); ++file)
        out += fmt::format("<h4>{} {}</h4><div class=\"scroll\">\n{}</div>\n", file_badge(file),
                           escape(study.runs[file].path), ranks_table(study.runs[file]));
    out += "</details>\n<details><summary>Events</summary><div class=\"scroll\">\n" +
           events_table(study) + "</div></details>\n</section>\n";
    return out;
}

}  // namespace weightlift::report
