#include "weightlift/record/figures.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace weightlift::record {

std::string show_ms(std::uint64_t ns) {
    if (ns == kNotMeasured) return "-";
    const double ms = static_cast<double>(ns) / 1e6;
    // Bounds are those of rounding: 9.9996 is "10.00".
    return fmt::format("{:.{}f}", ms, ms < 9.9995 ? 3 : ms < 99.995 ? 2 : ms < 999.95 ? 1 : 0);
}

std::string show_rate(double bytes_per_second) {
    if (bytes_per_second <= 0) return "-";
    const double gb = bytes_per_second / 1e9;
    return fmt::format("{:.{}f}", gb, gb < 0.9995 ? 3 : gb < 99.995 ? 2 : 1);
}

const char* show_check(Validity validity) {
    switch (validity) {
        case Validity::Unchecked: return "N/A";
        case Validity::Valid: return "right";
        case Validity::Wrong: return "WRONG";
    }
    return "N/A";
}

bool is_checked(const std::vector<Sample>& samples) {
    return std::any_of(samples.begin(), samples.end(),
                       [](const Sample& s) { return s.validity != Validity::Unchecked; });
}

double worst_clock(const std::vector<Sample>& samples) {
    double worst = 0;
    for (const Sample& s : samples)
        if (!s.warmup && s.time_ns > 0)
            worst =
                std::max(worst, static_cast<double>(std::max(s.clock_error_ns, s.release_skew_ns)) /
                                    static_cast<double>(s.time_ns));
    return worst;
}

std::optional<std::size_t> last_rank(const Sample& sample) {
    std::optional<std::size_t> last;
    for (std::size_t rank = 0; rank < sample.rank_time_ns.size(); ++rank) {
        const std::uint64_t time = sample.rank_time_ns[rank];
        if (time != kNotMeasured && (!last || time > sample.rank_time_ns[*last])) last = rank;
    }
    return last;
}

PhaseTimes median_phases(const std::vector<Sample>& samples) {
    PhaseTimes medians;
    for (std::size_t p = 0; p < kPhases; ++p) {
        std::vector<std::uint64_t> slowest;
        for (const Sample& s : samples) {
            if (s.warmup) continue;
            std::optional<std::uint64_t> most;
            for (const PhaseTimes& phases : s.phase_ns)
                if (phases[p] != kNotMeasured && (!most || phases[p] > *most)) most = phases[p];
            if (most) slowest.push_back(*most);
        }
        std::sort(slowest.begin(), slowest.end());
        medians[p] = slowest.empty() ? kNotMeasured : slowest[(slowest.size() - 1) / 2];
    }
    return medians;
}

SetupTimes slowest_setup(const std::vector<SetupTimes>& setup_ns) {
    SetupTimes slowest{};
    for (const SetupTimes& setup : setup_ns)
        for (std::size_t p = 0; p < kSetupPhases; ++p) slowest[p] = std::max(slowest[p], setup[p]);
    return slowest;
}

}  // namespace weightlift::record
