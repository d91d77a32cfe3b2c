#include "comparison_text.hpp"

#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "text.hpp"

namespace weightlift::app {

namespace {

using compare::CaseResult;
using compare::Cause;
using compare::Comparison;
using compare::Verdict;

std::string ms(std::optional<double> ns) {
    return ns ? show_ms(static_cast<std::uint64_t>(std::llround(*ns))) : "-";
}

std::string percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }

/// "+10.4 %", or in milliseconds where the base is next to nothing.
std::string change_of(double base_ns, double new_ns) {
    const double change = new_ns - base_ns;
    if (base_ns > 0 && std::abs(change) < 10 * base_ns) return percent(change / base_ns);
    return fmt::format("{:+.3g} ms", change / 1e6);
}

std::string place(const std::string& host, const std::string& nic) {
    return nic.empty() ? host : fmt::format("{}, {}", host, nic);
}

std::string describe(const Cause& cause) {
    return fmt::format("rank {} ({}) on {}: {}{} {} -> {} ms ({})", cause.rank, cause.role,
                       place(cause.host, cause.nic), to_string(cause.phase),
                       cause.is_waiting ? " (waits for its trainers)" : "", ms(cause.base_ns),
                       ms(cause.new_ns), change_of(cause.base_ns, cause.new_ns));
}

std::string interval_of(const CaseResult& one) {
    if (!one.shift_ns || !one.shift_ns->interval || !one.base_ns || *one.base_ns <= 0) return "-";
    return fmt::format("{} … {}", percent(one.shift_ns->interval->low / *one.base_ns),
                       percent(one.shift_ns->interval->high / *one.base_ns));
}

std::string p_of(const CaseResult& one) {
    if (!one.adjusted_p) return "-";
    return fmt::format("{}{:.4f}", one.is_exact ? "" : "~", *one.adjusted_p);
}

std::vector<std::string> header() {
    return {"case", "launches", "base ms", "new ms", "change", "95 % interval", "p", "verdict"};
}

std::vector<std::string> row_of(const CaseResult& one) {
    return {one.key,
            fmt::format("{} v {}", one.base_launches, one.new_launches),
            ms(one.base_ns),
            ms(one.new_ns),
            one.change() ? percent(*one.change()) : "-",
            interval_of(one),
            p_of(one),
            std::string(to_string(one.verdict))};
}

/// What is to be said of a case beyond its row.
std::vector<std::string> details_of(const CaseResult& one) {
    std::vector<std::string> lines;
    if (!one.reason.empty())
        lines.push_back(fmt::format("{}: {}", to_string(one.verdict), one.reason));
    constexpr std::size_t kShown = 3;
    for (std::size_t i = 0; i < std::min(kShown, one.causes.size()); ++i)
        lines.push_back(fmt::format("{}: {}", to_string(one.verdict), describe(one.causes[i])));
    if (one.causes.size() > kShown)
        lines.push_back(fmt::format("and {} more phases of ranks by at least half as much",
                                    one.causes.size() - kShown));
    if (!one.in_common.empty())
        lines.push_back(fmt::format("what these ranks have in common: {}", one.in_common));
    const bool has_moved = one.verdict == Verdict::Slower || one.verdict == Verdict::Faster;
    if (has_moved && one.new_slowest.rank >= 0 && one.base_slowest.rank >= 0)
        lines.push_back(fmt::format(
            "last to finish: rank {} on {} in {} of {} launches; in base rank {} on {} in {} of {}",
            one.new_slowest.rank, place(one.new_slowest.host, one.new_slowest.nic),
            one.new_slowest.launches, one.new_launches, one.base_slowest.rank,
            place(one.base_slowest.host, one.base_slowest.nic), one.base_slowest.launches,
            one.base_launches));
    for (const auto& bound : one.out_of_bounds) {
        const std::string text = compare::describe(bound);
        lines.push_back("out of bounds: " + text.substr(bound.key.size() + 2));
    }
    return lines;
}

/// "1 slower, 2 same", worst first.
std::string totals(const Comparison& comparison) {
    std::vector<std::string> parts;
    for (const Verdict verdict : {Verdict::WrongData, Verdict::Slower, Verdict::Missing,
                                  Verdict::Inconclusive, Verdict::Faster, Verdict::Same}) {
        std::size_t count = 0;
        for (const CaseResult& one : comparison.cases) count += one.verdict == verdict ? 1 : 0;
        if (count > 0) parts.push_back(fmt::format("{} {}", count, to_string(verdict)));
    }
    std::size_t broken = 0;
    for (const CaseResult& one : comparison.cases) broken += one.out_of_bounds.empty() ? 0 : 1;
    if (broken > 0) parts.push_back(fmt::format("{} out of bounds", broken));
    return fmt::format("{}", fmt::join(parts, ", "));
}

std::string outcome(const Comparison& comparison, ExitCode code) {
    return fmt::format("{}: {}", code == ExitCode::Ok ? "passed" : "FAILED", totals(comparison));
}

std::string escape_cell(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
}

}  // namespace

std::string comparison_text(const Comparison& comparison, const ComparedSides& sides,
                            ExitCode code) {
    std::string out = fmt::format("base  {}\nnew   {}\n\n", sides.base, sides.next);
    std::vector<std::vector<std::string>> rows{header()};
    for (const CaseResult& one : comparison.cases) {
        rows.push_back(row_of(one));
        for (const std::string& line : details_of(one)) rows.push_back({"    " + line});
    }
    out += align(rows) + "\n";
    for (const auto& d : comparison.differences)
        out += fmt::format("differs: {}: {} (base), {} (new)\n", d.field, d.base, d.next);
    for (const std::string& note : comparison.notes) out += fmt::format("note: {}\n", note);
    return out + outcome(comparison, code) + "\n";
}

std::string comparison_markdown(const Comparison& comparison, const ComparedSides& sides,
                                ExitCode code) {
    std::string out = fmt::format("**{}** (base: {}; new: {})\n\n", outcome(comparison, code),
                                  sides.base, sides.next);
    const auto line = [&](const std::vector<std::string>& cells) {
        std::vector<std::string> escaped;
        for (const std::string& cell : cells) escaped.push_back(escape_cell(cell));
        out += fmt::format("| {} |\n", fmt::join(escaped, " | "));
    };
    line(header());
    out += "|---|--:|--:|--:|--:|--:|--:|---|\n";
    for (const CaseResult& one : comparison.cases) line(row_of(one));
    std::string list;
    for (const CaseResult& one : comparison.cases)
        for (const std::string& detail : details_of(one))
            list += fmt::format("- `{}`: {}\n", one.key, detail);
    for (const auto& d : comparison.differences)
        list += fmt::format("- differs: {}: {} (base), {} (new)\n", d.field, d.base, d.next);
    for (const std::string& note : comparison.notes) list += fmt::format("- note: {}\n", note);
    return out + (list.empty() ? "" : "\n" + list);
}

std::string comparison_json(const Comparison& comparison, const compare::Options& options,
                            ExitCode code) {
    using Json = nlohmann::ordered_json;
    const auto number = [](const std::optional<double>& value) {
        return value ? Json(*value) : Json(nullptr);
    };
    const auto slowest = [](const compare::Slowest& s) {
        if (s.rank < 0) return Json(nullptr);
        return Json{{"rank", s.rank}, {"host", s.host}, {"nic", s.nic}, {"launches", s.launches}};
    };
    Json out{{"schema", "weightlift-comparison/1"},
             {"exit_code", static_cast<int>(code)},
             {"threshold", options.threshold},
             {"level", compare::kLevel},
             {"history", options.history > 0 ? Json(options.history) : Json(nullptr)},
             {"cases", Json::array()}};
    for (const CaseResult& one : comparison.cases) {
        Json item{{"key", one.key},
                  {"verdict", to_string(one.verdict)},
                  {"reason", one.reason},
                  {"base_launches", one.base_launches},
                  {"new_launches", one.new_launches},
                  {"base_ns", number(one.base_ns)},
                  {"new_ns", number(one.new_ns)},
                  {"shift_ns", one.shift_ns ? Json(one.shift_ns->estimate) : Json(nullptr)},
                  {"change", number(one.change())},
                  {"interval_ns", nullptr},
                  {"p", number(one.p)},
                  {"p_holm", number(one.adjusted_p)},
                  {"is_exact", one.is_exact},
                  {"causes", Json::array()},
                  {"in_common", one.in_common},
                  {"base_slowest", slowest(one.base_slowest)},
                  {"new_slowest", slowest(one.new_slowest)},
                  {"out_of_bounds", Json::array()}};
        if (one.shift_ns && one.shift_ns->interval)
            item["interval_ns"] = {{"low", one.shift_ns->interval->low},
                                   {"high", one.shift_ns->interval->high},
                                   {"level", one.shift_ns->interval->level}};
        for (const Cause& cause : one.causes)
            item["causes"].push_back({{"rank", cause.rank},
                                      {"role", cause.role},
                                      {"host", cause.host},
                                      {"nic", cause.nic},
                                      {"phase", to_string(cause.phase)},
                                      {"base_ns", cause.base_ns},
                                      {"new_ns", cause.new_ns},
                                      {"is_waiting", cause.is_waiting}});
        for (const auto& bound : one.out_of_bounds)
            item["out_of_bounds"].push_back({{"metric", bound.metric},
                                             {"measured", number(bound.measured)},
                                             {"bound", bound.bound},
                                             {"is_below", bound.is_below},
                                             {"is_implausible", bound.is_implausible},
                                             {"source", bound.source}});
        out["cases"].push_back(std::move(item));
    }
    out["differences"] = Json::array();
    for (const auto& d : comparison.differences)
        out["differences"].push_back({{"field", d.field}, {"base", d.base}, {"new", d.next}});
    out["notes"] = comparison.notes;
    // File names and labels need not be UTF-8.
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weightlift::app
