#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../commands.hpp"
#include "finding.hpp"

namespace weightlift::app::doctor {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kWidth = 100;

/// Columns of a terminal: bytes that begin a UTF-8 character.
std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    }));
}

/// Breaks at spaces, and where the text has a line break; every line but the first is indented.
std::string wrap(const std::string& text, std::size_t indent) {
    std::string out, line;
    const auto end_line = [&] {
        out += line + '\n' + std::string(indent, ' ');
        line.clear();
    };
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
        const std::string word = text.substr(at, end - at);
        if (!line.empty() && indent + width_of(line) + 1 + width_of(word) > kWidth) end_line();
        line += (line.empty() ? "" : " ") + word;
        if (end < text.size() && text[end] == '\n') end_line();
        at = end + 1;
    }
    return out + line;
}

Verdict verdict_from(const std::string& text) {
    for (const Verdict verdict : {Verdict::Ok, Verdict::Warn, Verdict::Skip})
        if (to_string(verdict) == text) return verdict;
    return Verdict::Fail;
}

std::array<std::size_t, 4> count(std::span<const Folded> findings) {
    std::array<std::size_t, 4> counts{};
    for (const Folded& folded : findings)
        ++counts[static_cast<std::size_t>(folded.finding.verdict)];
    return counts;
}

constexpr std::array kAll = {Verdict::Ok, Verdict::Warn, Verdict::Fail, Verdict::Skip};

/// File names and driver texts need not be UTF-8.
template <class Json>
std::string dump(const Json& value, int indent = -1) {
    return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const RankReport& report) {
    json out{{"host", report.host}, {"findings", json::array()}, {"traits", json::array()}};
    for (const Finding& f : report.findings)
        out["findings"].push_back(
            {f.check, to_string(f.verdict), f.evidence, f.remedy, f.is_joint});
    for (const Trait& t : report.traits) out["traits"].push_back({t.name, t.value});
    return dump(out);
}

RankReport rank_report_from_json(std::string_view text) {
    const json in = json::parse(text);
    RankReport report;
    report.host = in.at("host");
    for (const json& f : in.at("findings"))
        report.findings.push_back({f.at(0), verdict_from(f.at(1)), f.at(2), f.at(3), f.at(4)});
    for (const json& t : in.at("traits")) report.traits.push_back({t.at(0), t.at(1)});
    return report;
}

std::string table(std::span<const Folded> findings, std::span<const RankReport> reports) {
    // Printed in parts, which line up: as wide as "relaxed ordering".
    constexpr std::size_t kVerdict = 6, kCheck = 17, kIndent = kVerdict + kCheck + 2;
    std::string out;
    for (const auto& [finding, ranks] : findings) {
        const std::string place = finding.is_joint ? "" : where(ranks, reports);
        const std::string evidence =
            place.empty() ? finding.evidence : fmt::format("{} ({})", finding.evidence, place);
        out += fmt::format("{:<6}{:<{}}  {}\n", to_string(finding.verdict), finding.check, kCheck,
                           wrap(evidence, kIndent));
        if (!finding.remedy.empty())
            out += fmt::format("{}-> {}\n", std::string(kIndent, ' '),
                               wrap(finding.remedy, kIndent + 3));
    }
    return out;
}

std::string title(std::span<const RankReport> reports) {
    std::vector<std::string_view> hosts;
    for (const RankReport& report : reports)
        if (std::find(hosts.begin(), hosts.end(), report.host) == hosts.end())
            hosts.push_back(report.host);
    return fmt::format(
        "weightlift doctor: {} rank{} on {}", reports.size(), reports.size() == 1 ? "" : "s",
        hosts.size() == 1 ? std::string(hosts[0]) : fmt::format("{} hosts", hosts.size()));
}

std::string show_binary(std::uint64_t bytes) {
    constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
    return fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string footer(std::span<const Folded> findings) {
    const auto counts = count(findings);
    std::string out = fmt::format("{}:", to_string(worst(findings)));
    for (const Verdict verdict : kAll)
        out += fmt::format("{} {} {}", verdict == Verdict::Ok ? "" : ",",
                           counts[static_cast<std::size_t>(verdict)], to_string(verdict));
    return out;
}

std::string report_json(std::span<const Folded> findings, std::span<const RankReport> reports) {
    ordered_json out{{"schema", "weightlift-doctor/1"},
                     {"tool_version", version_number()},
                     {"git", git_revision()},
                     {"verdict", to_string(worst(findings))},
                     {"counts", ordered_json::object()},
                     {"ranks", ordered_json::array()},
                     {"findings", ordered_json::array()}};
    const auto counts = count(findings);
    for (const Verdict verdict : kAll)
        out["counts"][std::string(to_string(verdict))] = counts[static_cast<std::size_t>(verdict)];
    for (const RankReport& report : reports) {
        ordered_json traits = ordered_json::object();
        for (const Trait& trait : report.traits) traits[trait.name] = trait.value;
        out["ranks"].push_back({{"host", report.host}, {"traits", traits}});
    }
    for (const auto& [finding, ranks] : findings)
        out["findings"].push_back({{"check", finding.check},
                                   {"verdict", to_string(finding.verdict)},
                                   {"evidence", finding.evidence},
                                   {"remedy", finding.remedy},
                                   {"ranks", ranks}});
    return dump(out, 2) + "\n";
}

}  // namespace weightlift::app::doctor
