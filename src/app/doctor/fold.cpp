#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/error.hpp"

#include "finding.hpp"

namespace weightlift::app::doctor {
namespace {

/// From harmless to serious.
int weight(Verdict verdict) {
    switch (verdict) {
        case Verdict::Skip: return 0;
        case Verdict::Ok: return 1;
        case Verdict::Warn: return 2;
        case Verdict::Fail: return 3;
    }
    return 3;
}

struct Unequal {
    std::string_view name;
    Verdict verdict;
    std::string_view remedy;
};
constexpr std::array kUnequal = {
    Unequal{"tool version", Verdict::Fail, "install one version of weightlift on all hosts"},
    Unequal{"binary", Verdict::Warn,
            "run one file from a shared file system, or copy it to all hosts again"},
    Unequal{"MPI library", Verdict::Warn, "load one MPI on all hosts"},
    Unequal{"locked memory", Verdict::Warn,
            "give all hosts one limit (LimitMEMLOCK of the launching daemon, limits.conf)"},
    Unequal{"RDMA devices", Verdict::Warn,
            "compare `rdma link` on the hosts; pushes go no faster than the smaller number"},
    Unequal{"NIC firmware", Verdict::Warn, "bring all to one firmware (mlxfwmanager, vendor tool)"},
    Unequal{"NIC rate", Verdict::Warn,
            "check cables, switch ports and lane widths where the rate is lower"},
    Unequal{"path MTU", Verdict::Warn,
            "give all interfaces and switches one MTU; the smaller one is used"},
    Unequal{"address kind", Verdict::Warn,
            "give all RoCE interfaces addresses of one kind, best IPv4; others do not reach each "
            "other"},
};

const std::string* value_of(const RankReport& report, std::string_view name) {
    const auto found = std::find_if(report.traits.begin(), report.traits.end(),
                                    [name](const Trait& trait) { return trait.name == name; });
    return found == report.traits.end() ? nullptr : &found->value;
}

std::string ranges_of(std::span<const int> ranks) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t end = i + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
        parts.push_back(end - i == 1 ? std::to_string(ranks[i])
                                     : fmt::format("{}-{}", ranks[i], ranks[end - 1]));
        i = end;
    }
    return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace

std::string_view to_string(Verdict verdict) {
    switch (verdict) {
        case Verdict::Ok: return "OK";
        case Verdict::Warn: return "WARN";
        case Verdict::Fail: return "FAIL";
        case Verdict::Skip: return "SKIP";
    }
    return "?";
}

std::vector<Folded> fold(std::span<const RankReport> reports) {
    std::vector<Folded> folded;
    std::vector<std::string> order;
    for (std::size_t rank = 0; rank < reports.size(); ++rank)
        for (const Finding& finding : reports[rank].findings) {
            if (std::find(order.begin(), order.end(), finding.check) == order.end())
                order.push_back(finding.check);
            auto found = std::find_if(folded.begin(), folded.end(),
                                      [&](const Folded& f) { return f.finding == finding; });
            if (found == folded.end()) found = folded.insert(folded.end(), {finding, {}});
            const int number = static_cast<int>(rank);
            if (found->ranks.empty() || found->ranks.back() != number)
                found->ranks.push_back(number);
        }
    const auto place = [&](const Folded& f) {
        return std::pair(std::find(order.begin(), order.end(), f.finding.check) - order.begin(),
                         weight(f.finding.verdict));
    };
    std::stable_sort(folded.begin(), folded.end(),
                     [&](const Folded& a, const Folded& b) { return place(a) < place(b); });
    return folded;
}

std::vector<Folded> compare_traits(std::span<const RankReport> reports) {
    std::vector<int> all(reports.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    std::vector<Folded> folded;
    std::vector<std::string_view> alike;
    for (const Unequal& known : kUnequal) {
        std::vector<std::pair<std::string, std::vector<int>>> values;
        for (std::size_t rank = 0; rank < reports.size(); ++rank) {
            const std::string* const value = value_of(reports[rank], known.name);
            if (value == nullptr) continue;
            auto found = std::find_if(values.begin(), values.end(),
                                      [&](const auto& v) { return v.first == *value; });
            if (found == values.end()) found = values.insert(values.end(), {*value, {}});
            found->second.push_back(static_cast<int>(rank));
        }
        if (values.size() == 1) alike.push_back(known.name);
        if (values.size() < 2) continue;
        std::string evidence = fmt::format("{} differs:", known.name);
        for (const auto& [value, ranks] : values)
            evidence += fmt::format("\n{} ({})", value, where(ranks, reports));
        folded.push_back(
            {{"alike", known.verdict, evidence, std::string(known.remedy), true}, all});
    }
    if (!alike.empty())
        folded.insert(folded.begin(),
                      {{"alike", Verdict::Ok,
                        fmt::format("on all ranks: {}", fmt::join(alike, ", ")), "", true},
                       all});
    return folded;
}

Verdict worst(std::span<const Folded> findings) {
    Verdict verdict = Verdict::Skip;
    for (const Folded& folded : findings)
        if (weight(folded.finding.verdict) > weight(verdict)) verdict = folded.finding.verdict;
    return verdict;
}

std::string where(std::span<const int> ranks, std::span<const RankReport> reports) {
    if (ranks.size() == reports.size()) return "";
    std::vector<std::string> hosts;
    for (const int rank : ranks) {
        const std::string& host = reports[static_cast<std::size_t>(rank)].host;
        if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
    }
    return fmt::format("rank{} {} on {}", ranks.size() == 1 ? "" : "s", ranges_of(ranks),
                       name_some(hosts, "hosts"));
}

}  // namespace weightlift::app::doctor
