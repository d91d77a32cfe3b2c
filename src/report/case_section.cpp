#include <algorithm>

#include <fmt/format.h>

#include "weightlift/record/figures.hpp"

#include "charts.hpp"
#include "html.hpp"
#include "sections.hpp"

namespace weightlift::report {

namespace {

using record::kNotMeasured;

/// Most iterations that are listed; the file has all.
constexpr std::size_t kListed = 200;

struct Bar {
    std::string name;
    std::uint64_t ns;
};

std::string bars(const std::vector<Bar>& rows, const char* attribute) {
    std::uint64_t most = 1;
    for (const Bar& bar : rows)
        if (bar.ns != kNotMeasured) most = std::max(most, bar.ns);
    std::string out = fmt::format("<table class=\"bars\" data-of=\"{}\">\n", attribute);
    for (const Bar& bar : rows) {
        if (bar.ns == kNotMeasured) continue;
        out +=
            fmt::format("<tr><th>{}</th><td>{}</td><td><i style=\"width:{:.1f}%\"></i></td></tr>\n",
                        escape(bar.name), datum(ms_cell(bar.ns)),
                        100 * static_cast<double>(bar.ns) / static_cast<double>(most));
    }
    return out + "</table>\n";
}

std::string phases(const record::CaseRecord& one) {
    std::vector<Bar> push, setup;
    const auto medians = record::median_phases(one.samples);
    for (std::size_t p = 0; p < record::kPhases; ++p)
        push.push_back({std::string(to_string(static_cast<record::Phase>(p))), medians[p]});
    const auto slowest = record::slowest_setup(one.setup_ns);
    for (std::size_t p = 0; p < record::kSetupPhases; ++p)
        setup.push_back({std::string(to_string(static_cast<record::SetupPhase>(p))), slowest[p]});
    return "<h4>Phases of a push <small>ms: median of the slowest rank; they "
           "overlap</small></h4>\n" +
           bars(push, "phases") + "<h4>Set-up <small>ms: slowest rank</small></h4>\n" +
           bars(setup, "setup");
}

std::string iterations(const Entry& entry) {
    const auto& samples = entry.one->samples;
    std::string out =
        "<details><summary>Iterations</summary><div class=\"scroll\"><table "
        "class=\"iterations\"><thead>" +
        row({"version", "", "time ms", "closed ms", "clock error ms", "release skew ms", "check",
             "slowest"},
            "th") +
        "</thead><tbody>\n";
    for (std::size_t i = 0; i < std::min(samples.size(), kListed); ++i) {
        const record::Sample& s = samples[i];
        const auto last = record::last_rank(s);
        out += fmt::format(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td "
            "class=\"left\">{}</td></tr>\n",
            s.version, s.warmup ? "warm-up" : "", datum(ms_cell(s.time_ns)),
            datum(ms_cell(s.closed_ns)), datum(ms_cell(s.clock_error_ns)),
            datum(ms_cell(s.release_skew_ns)), record::show_check(s.validity),
            last ? escape(rank_label(entry, *last)) : "-");
    }
    out += "</tbody></table></div>\n";
    if (samples.size() > kListed)
        out += fmt::format("<p class=\"note\">The first {} of {}; the file has all.</p>\n", kListed,
                           samples.size());
    return out + "</details>\n";
}

std::string fingerprints(const record::CaseRecord& one) {
    if (one.fingerprints.empty()) return "";
    const auto equal = std::count_if(one.fingerprints.begin(), one.fingerprints.end(),
                                     [](const auto& tensor) { return tensor.equal; });
    std::string out = fmt::format(
        "<p>Fingerprints: {} of {} tensors agree on trainers and every "
        "copy.",
        equal, one.fingerprints.size());
    const auto differs = std::find_if(one.fingerprints.begin(), one.fingerprints.end(),
                                      [](const auto& tensor) { return !tensor.equal; });
    if (differs != one.fingerprints.end())
        out += fmt::format(
            " The first that differs is <code>{}</code>: {:016x} on trainers, "
            "{:016x} on {}.",
            escape(differs->tensor), differs->trainer, differs->rollout,
            differs->engine < 0 ? "another trainer" : fmt::format("engine {}", differs->engine));
    return out + "</p>\n";
}

std::string nics(const Entry& entry) {
    const auto& rows = entry.one->nics;
    if (rows.empty()) return "";
    std::string out =
        "<details><summary>NICs</summary><table><thead>" +
        row({"rank", "NIC", "sent, by completions", "sent, by the port's counter"}, "th") +
        "</thead><tbody>\n";
    for (const record::NicRow& nic : rows)
        out += fmt::format("<tr><td class=\"left\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                           escape(rank_label(entry, static_cast<std::size_t>(nic.rank))),
                           escape(nic.nic), datum(bytes_cell(nic.completed)),
                           nic.counted == kNotMeasured ? "N/A" : datum(bytes_cell(nic.counted)));
    return out + "</tbody></table></details>\n";
}

bool is_same_traffic(const Entry& a, const Entry& b) {
    return std::equal(a.one->traffic.begin(), a.one->traffic.end(), b.one->traffic.begin(),
                      b.one->traffic.end(), [](const auto& x, const auto& y) {
                          return x.src == y.src && x.dst == y.dst && x.bytes == y.bytes &&
                                 x.transport == y.transport;
                      });
}

std::string plan_line(const record::CaseInfo& info) {
    return fmt::format(
        "<p class=\"note\">Plan <code>{:016x}</code>: {} transfers, {} copies; {} in all, {} "
        "between "
        "different ranks, {} through the busiest one. Verify {}, memory {}.</p>\n",
        info.plan_digest, info.transfers, info.copies, human_bytes(info.bytes),
        human_bytes(info.wire_bytes), human_bytes(info.port_bytes), escape(info.verify),
        escape(info.memory));
}

std::string in_short(const Entry& entry) {
    if (has_failed(entry)) return "failed";
    if (!is_right(entry)) return "wrong data";
    if (entry.summary.iterations == 0) return "no push that counts";
    return fmt::format("{} ms, {} GB/s", record::show_ms(entry.summary.p50_ns),
                       record::show_rate(entry.summary.algbw));
}

}  // namespace

std::string case_section(const Group& group, std::size_t number, bool has_many_files,
                         bool is_open) {
    const Entry& first = group.entries.front();
    std::string out = fmt::format(
        "<details class=\"case\" id=\"case{}\"{}><summary><b>{}</b> {} "
        "<small>{}</small></summary>\n",
        number, is_open ? " open" : "", number, escape(group.name), in_short(first));
    double top = 0;
    for (const Entry& entry : group.entries) top = std::max(top, time_chart_top(entry));
    out += fmt::format("<div class=\"panels{}\">\n", group.entries.size() == 1 ? " single" : "");
    for (const Entry& entry : group.entries) {
        out += fmt::format(
            "<div class=\"panel\" style=\"--mine:{}\" data-file=\"{}\" data-case=\"{}\">\n",
            file_colour(entry.file), entry.file, entry.number);
        if (has_many_files || group.entries.size() > 1)
            out += fmt::format("<h3>{} <span class=\"path\">{}</span></h3>\n", entry_badge(entry),
                               escape(entry.run->path));
        out += plan_line(entry.one->info) + fingerprints(*entry.one);
        out += "<div class=\"parts\"><div><h4>Time per iteration</h4>\n" + time_chart(entry, top) +
               iterations(entry);
        out += "</div><div>" + phases(*entry.one) + "</div><div><h4>Traffic</h4>\n";
        out += &entry != &first && is_same_traffic(entry, first)
                   ? fmt::format(
                         "<p class=\"note\">The same bytes between the same ranks as in "
                         "{}.</p>\n",
                         file_label(first.file))
                   : "<div class=\"scroll\">" + traffic_map(entry) + "</div>\n";
        out += nics(entry) + "</div></div></div>\n";
    }
    return out + "</div></details>\n";
}

}  // namespace weightlift::report
