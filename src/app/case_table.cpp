#include "case_table.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text.hpp"

namespace weightlift::app {

using record::CaseRecord;
using record::kNotMeasured;
using record::RankInfo;
using record::Sample;
using record::Summary;

namespace {

std::string ratio(std::uint64_t part, std::uint64_t whole) {
    if (part == kNotMeasured || whole == kNotMeasured || whole == 0) return "-";
    return fmt::format("{:.2f}", static_cast<double>(part) / static_cast<double>(whole));
}

bool has_failed(const CaseRecord& one) { return one.outcome && one.outcome->exit_code != 0; }

/// A case with a wrong iteration, or that failed, has no bandwidth that could be called its own.
bool is_right(const CaseRecord& one, const Summary& s) { return s.wrong == 0 && !has_failed(one); }

std::string name_of(const CaseRecord& one, bool is_repeated) {
    return one.info.key + (is_repeated ? fmt::format(" #{}", one.info.repetition) : "");
}

std::vector<std::string> row_of(const CaseRecord& one, const Summary& s, bool is_repeated) {
    const auto& info = one.info;
    const bool is_right = app::is_right(one, s);
    const double line = static_cast<double>(info.line_rate);
    return {name_of(one, is_repeated) +
                (record::worst_clock(one.samples) > record::kClockLimit ? " *" : "") +
                (has_failed(one) ? " (failed)" : ""),
            info.bytes > 0 ? human_bytes(info.bytes) : "-",
            std::to_string(s.iterations),
            show_ms(s.first_ns),
            show_ms(s.min_ns),
            show_ms(s.p50_ns),
            show_ms(s.p99_ns),
            show_ms(s.max_ns),
            is_right ? show_rate(s.algbw) : "-",
            is_right ? show_rate(s.portbw) : "-",
            is_right && info.line_rate != kNotMeasured && s.portbw > 0
                ? fmt::format("{:.0f}", 100 * s.portbw / line)
                : "-",
            show_ms(info.floor_ns),
            is_right ? ratio(s.p50_ns, info.floor_ns) : "-",
            record::is_checked(one.samples) ? std::to_string(s.wrong) : "N/A"};
}

/// By NIC name: bytes of all ranks, and what the ports of that name counted, each port once.
std::string nic_lines(const std::vector<record::NicRow>& rows, const std::vector<RankInfo>& ranks) {
    struct Total {
        Bytes completed = 0;
        std::size_t ranks = 0;
        bool is_counted = true;
        std::map<std::string, Bytes> by_host;  ///< a port counts for all ranks that use it
    };
    std::map<std::string, Total> totals;
    for (const auto& row : rows) {
        if (row.completed == 0) continue;
        Total& total = totals[row.nic];
        total.completed += row.completed;
        ++total.ranks;
        total.is_counted = total.is_counted && row.counted != kNotMeasured;
        const auto rank = std::find_if(ranks.begin(), ranks.end(),
                                       [&](const RankInfo& r) { return r.rank == row.rank; });
        Bytes& counted = total.by_host[rank == ranks.end() ? "" : rank->host];
        counted = std::max(counted, row.counted);
    }
    std::string text;
    for (const auto& [nic, total] : totals) {
        Bytes counted = 0;
        for (const auto& [host, bytes] : total.by_host) counted += bytes;
        text += fmt::format("sent through {}: {} in all, by {} rank{}; port counter {}\n", nic,
                            human_bytes(total.completed), total.ranks, total.ranks == 1 ? "" : "s",
                            total.is_counted ? human_bytes(counted) : "N/A");
    }
    return text;
}

std::string clock_note(double worst) {
    return worst > 0.01
               ? fmt::format("* clock error or release skew reaches {:.0f} % of the time\n",
                             100 * worst)
               : "";
}

std::string footer(const CaseRecord& one, const Summary& s, const std::vector<RankInfo>& ranks) {
    std::string text;
    const auto is_slowest = [&](const RankInfo& r) { return r.rank == s.slowest_rank; };
    if (const auto slowest = std::find_if(ranks.begin(), ranks.end(), is_slowest);
        slowest != ranks.end())
        text += fmt::format("slowest: rank {}, {}{}: {:.2f} x median, in {} of {} iterations\n",
                            slowest->rank, slowest->host,
                            slowest->nic.empty() ? "" : ", " + slowest->nic, s.slowest_ratio,
                            s.slowest_count, s.iterations);
    std::map<std::string, std::pair<Bytes, std::size_t>> by_transport;
    for (const auto& row : one.traffic) {
        by_transport[row.transport].first += row.bytes;
        ++by_transport[row.transport].second;
    }
    for (const auto& [name, total] : by_transport)
        text += fmt::format("moved by {}: {} per push, between {} pairs of ranks\n", name,
                            human_bytes(total.first), total.second);
    text += nic_lines(one.nics, ranks);
    if (!one.fingerprints.empty()) {
        const auto equal = std::count_if(one.fingerprints.begin(), one.fingerprints.end(),
                                         [](const auto& row) { return row.equal; });
        text += fmt::format("fingerprints: {} of {} tensors agree between trainer and every copy\n",
                            equal, one.fingerprints.size());
        for (const auto& row : one.fingerprints)
            if (!row.equal) {
                // No engine is named where the trainers disagree among themselves.
                text += fmt::format(
                    "first that differs: {} ({:016x} on trainers, {:016x} on {})\n", row.tensor,
                    row.trainer, row.rollout,
                    row.engine < 0 ? "another trainer" : fmt::format("engine {}", row.engine));
                break;
            }
    }
    return text + clock_note(record::worst_clock(one.samples));
}

}  // namespace

std::string case_table(const std::vector<CaseRecord>& cases, const std::vector<RankInfo>& ranks) {
    std::vector<std::vector<std::string>> rows{
        {"case", "bytes", "iters", "first", "min", "p50", "p99", "max", "algbw", "portbw", "%line",
         "floor", "x floor", "#wrong"},
        {"", "", "", "ms", "ms", "ms", "ms", "ms", "GB/s", "GB/s", "", "ms", "", ""}};
    const bool is_repeated = std::any_of(
        cases.begin(), cases.end(), [](const CaseRecord& one) { return one.info.repetition > 0; });
    std::string footers;
    double worst = 0;
    for (const CaseRecord& one : cases) {
        const Summary summary = record::summarize(one.info, one.samples);
        rows.push_back(row_of(one, summary, is_repeated));
        worst = std::max(worst, record::worst_clock(one.samples));
        if (cases.size() == 1) footers += footer(one, summary, ranks);
        if (has_failed(one))
            footers += fmt::format("failed with {}: {}: {}\n", one.outcome->exit_code,
                                   name_of(one, is_repeated), one.outcome->reason);
    }
    if (cases.size() > 1) footers += clock_note(worst);
    return align(rows) + footers;
}

std::string case_json(const record::RunRecord& run) {
    using Json = nlohmann::ordered_json;
    const auto number = [](std::uint64_t value) {
        return value == kNotMeasured ? Json(nullptr) : Json(value);
    };
    Json out{{"schema", "weightlift-summary/1"},
             {"file", run.path},
             {"status", run.status},
             {"exit_code", run.exit_code},
             {"run_uuid", run.run.run_uuid},
             {"tool_version", run.run.tool_version},
             {"git", run.run.git},
             {"cases", Json::array()}};
    for (const CaseRecord& one : run.cases) {
        const Summary s = record::summarize(one.info, one.samples);
        Json item{
            {"key", one.info.key},
            {"bytes", one.info.bytes},
            {"plan_digest", fmt::format("{:016x}", one.info.plan_digest)},
            {"verify", one.info.verify},
            {"iterations", s.iterations},
            {"wrong", record::is_checked(one.samples) ? Json(s.wrong) : Json(nullptr)},
            {"first_ns", number(s.first_ns)},
            {"min_ns", number(s.min_ns)},
            {"p50_ns", number(s.p50_ns)},
            {"p99_ns", number(s.p99_ns)},
            {"max_ns", number(s.max_ns)},
            {"algbw_bytes_per_s", s.algbw > 0 && is_right(one, s) ? Json(s.algbw) : Json(nullptr)},
            {"portbw_bytes_per_s",
             s.portbw > 0 && is_right(one, s) ? Json(s.portbw) : Json(nullptr)},
            {"floor_ns", number(one.info.floor_ns)},
            {"slowest_rank", s.slowest_rank >= 0 ? Json(s.slowest_rank) : Json(nullptr)}};
        if (!one.info.settings.empty()) {
            item["settings"] = one.info.settings;
            item["repetition"] = one.info.repetition;
        }
        if (one.outcome) {
            item["status"] = one.outcome->status;
            item["exit_code"] = one.outcome->exit_code;
            item["reason"] = one.outcome->reason;
        }
        Json times = Json::array();
        for (const Sample& sample : one.samples)
            if (!sample.warmup) times.push_back(sample.time_ns);
        item["time_ns"] = std::move(times);
        out["cases"].push_back(std::move(item));
    }
    for (const record::Event& event : run.events)
        if (event.kind == "skipped") out["skipped"].push_back(event.text);
    return out.dump(2) + "\n";
}

}  // namespace weightlift::app
