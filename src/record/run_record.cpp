#include "weightlift/record/run_record.hpp"

#include <algorithm>
#include <cstddef>

#include "weightlift/record/figures.hpp"

namespace weightlift::record {

std::string_view to_string(Phase phase) {
    switch (phase) {
        case Phase::Prepare: return "prepare";
        case Phase::Post: return "post";
        case Phase::Wire: return "wire";
        case Phase::Visibility: return "visibility";
        case Phase::Commit: return "commit";
        case Phase::Finalize: return "finalize";
        case Phase::Verify: return "verify";
        case Phase::SourceBusy: return "source_busy";
        case Phase::Pause: return "pause";
        case Phase::Cpu: return "cpu";
    }
    return "unknown";
}

std::string_view to_string(SetupPhase phase) {
    switch (phase) {
        case SetupPhase::Plan: return "plan";
        case SetupPhase::Allocate: return "allocate";
        case SetupPhase::Register: return "register";
        case SetupPhase::Connect: return "connect";
        case SetupPhase::Exchange: return "exchange";
    }
    return "unknown";
}

namespace {

/// The smallest value such that at least `percent` % of all are not above it.
std::uint64_t nearest_rank(const std::vector<std::uint64_t>& sorted, std::uint64_t percent) {
    const std::uint64_t position = ceil_div(percent * sorted.size(), 100);
    return sorted[position == 0 ? 0 : position - 1];
}

std::uint64_t median(std::vector<std::uint64_t> values) {
    std::sort(values.begin(), values.end());
    return nearest_rank(values, 50);
}

double per_second(Bytes bytes, std::uint64_t ns) {
    return ns == 0 ? 0.0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(ns);
}

/// Fills slowest_*: the rank that was most often the last; the lowest one where several were.
void find_slowest_rank(const std::vector<Sample>& samples, Summary& summary) {
    std::vector<std::vector<std::uint64_t>> times;  // by rank
    std::vector<std::uint64_t> was_last;
    for (const Sample& sample : samples) {
        if (!is_counted(sample)) continue;
        const std::size_t ranks = std::max(times.size(), sample.rank_time_ns.size());
        times.resize(ranks);
        was_last.resize(ranks);
        for (std::size_t rank = 0; rank < sample.rank_time_ns.size(); ++rank)
            if (const auto time = sample.rank_time_ns[rank]; time != kNotMeasured)
                times[rank].push_back(time);
        if (const auto last = last_rank(sample)) ++was_last[*last];
    }
    const auto most = std::max_element(was_last.begin(), was_last.end());
    if (most == was_last.end() || *most == 0) return;

    std::vector<std::uint64_t> medians;
    for (const auto& of_rank : times)
        if (!of_rank.empty()) medians.push_back(median(of_rank));
    const auto slowest = static_cast<std::size_t>(most - was_last.begin());
    const std::uint64_t typical = median(medians);
    summary.slowest_rank = narrow<std::int32_t>(slowest, "rank");
    summary.slowest_count = *most;
    if (typical != 0)
        summary.slowest_ratio =
            static_cast<double>(median(times[slowest])) / static_cast<double>(typical);
}

}  // namespace

Summary summarize(const CaseInfo& info, const std::vector<Sample>& samples) {
    Summary summary;
    if (!samples.empty()) summary.first_ns = samples.front().time_ns;

    std::vector<std::uint64_t> times;
    for (const Sample& sample : samples) {
        if (sample.validity == Validity::Wrong) ++summary.wrong;
        if (is_counted(sample)) times.push_back(sample.time_ns);
    }
    summary.iterations = times.size();
    if (times.empty()) {
        summary.first_ns = kNotMeasured;
        return summary;
    }

    std::sort(times.begin(), times.end());
    summary.min_ns = times.front();
    summary.p50_ns = nearest_rank(times, 50);
    if (times.size() >= 100) summary.p99_ns = nearest_rank(times, 99);
    summary.max_ns = times.back();
    summary.algbw = per_second(info.bytes, summary.p50_ns);
    summary.portbw = per_second(info.port_bytes, summary.p50_ns);
    find_slowest_rank(samples, summary);
    return summary;
}

}  // namespace weightlift::record
