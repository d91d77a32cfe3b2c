#include "columns.hpp"

#include <fmt/format.h>

#include "weightlift/record/figures.hpp"

namespace weightlift::report {

using record::kNotMeasured;

namespace {

Cell rate_cell(const Entry& e, double rate) {
    if (!is_right(e) || rate <= 0) return {"-", ""};
    return {record::show_rate(rate), fmt::format("{}", rate)};
}

Cell ratio_cell(const Entry& e, double part, double whole, bool is_known, double scale,
                int digits) {
    if (!is_right(e) || !is_known || part <= 0 || whole <= 0) return {"-", ""};
    return {fmt::format("{:.{}f}", scale * part / whole, digits),
            fmt::format("{}", scale * part / whole)};
}

constexpr ResultColumn kColumns[] = {
    {"bytes", "", "bytes", "payload of all rollout ranks",
     [](const Entry& e) { return bytes_cell(e.one->info.bytes); }},
    {"iters", "", "iterations", "pushes that count: after warm-up, and not wrong",
     [](const Entry& e) { return count_cell(e.summary.iterations); }},
    {"first", "ms", "first_ns", "time of the very first push: cold memory",
     [](const Entry& e) { return ms_cell(e.summary.first_ns); }},
    {"min", "ms", "min_ns", "least time of a push that counts",
     [](const Entry& e) { return ms_cell(e.summary.min_ns); }},
    {"p50", "ms", "p50_ns", "median time, by nearest rank",
     [](const Entry& e) { return ms_cell(e.summary.p50_ns); }},
    {"p99", "ms", "p99_ns", "99th percentile of time; - under 100 samples",
     [](const Entry& e) { return ms_cell(e.summary.p99_ns); }},
    {"max", "ms", "max_ns", "longest time of a push that counts",
     [](const Entry& e) { return ms_cell(e.summary.max_ns); }},
    {"algbw", "GB/s", "algbw_bytes_per_s", "bytes / time, at p50",
     [](const Entry& e) { return rate_cell(e, e.summary.algbw); }},
    {"portbw", "GB/s", "portbw_bytes_per_s", "bytes through the busiest rank / time, at p50",
     [](const Entry& e) { return rate_cell(e, e.summary.portbw); }},
    {"%line", "", "line_percent", "portbw over the port rate of the cluster; - where none is known",
     [](const Entry& e) {
         return ratio_cell(e, e.summary.portbw, static_cast<double>(e.one->info.line_rate),
                           e.one->info.line_rate != kNotMeasured, 100, 0);
     }},
    {"floor", "ms", "floor_ns",
     "the plan's lower bound for the rates of the cluster; - where none is known",
     [](const Entry& e) { return ms_cell(e.one->info.floor_ns); }},
    {"x floor", "", "times_floor", "p50 over floor",
     [](const Entry& e) {
         return ratio_cell(
             e, static_cast<double>(e.summary.p50_ns), static_cast<double>(e.one->info.floor_ns),
             e.one->info.floor_ns != kNotMeasured && e.summary.p50_ns != kNotMeasured, 1, 2);
     }},
    {"#wrong", "", "wrong", "pushes whose check failed; N/A where nothing was checked",
     [](const Entry& e) {
         return record::is_checked(e.one->samples) ? count_cell(e.summary.wrong) : Cell{"N/A", ""};
     }},
};

}  // namespace

std::span<const ResultColumn> result_columns() { return kColumns; }

Cell ms_cell(std::uint64_t ns) {
    return {record::show_ms(ns), ns == kNotMeasured ? "" : std::to_string(ns)};
}
Cell count_cell(std::uint64_t count) { return {std::to_string(count), std::to_string(count)}; }
Cell bytes_cell(Bytes bytes) { return {human_bytes(bytes), std::to_string(bytes)}; }

std::string slowest_text(const Entry& entry) {
    if (has_failed(entry))
        return fmt::format("failed, exit code {}: {}", entry.one->outcome->exit_code,
                           entry.one->outcome->reason);
    const record::Summary& s = entry.summary;
    if (s.slowest_rank < 0) return "-";
    return fmt::format("{}: {:.2f} × median, in {} of {}",
                       rank_label(entry, static_cast<std::size_t>(s.slowest_rank)), s.slowest_ratio,
                       s.slowest_count, s.iterations);
}

}  // namespace weightlift::report
