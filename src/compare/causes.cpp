#include "weightlift/compare/causes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "weightlift/compare/shift.hpp"

namespace weightlift::compare {

namespace {

/// The phases that follow one another inside a push.
constexpr record::Phase kSequence[] = {record::Phase::Prepare, record::Phase::Post,
                                       record::Phase::Wire,    record::Phase::Visibility,
                                       record::Phase::Commit,  record::Phase::Finalize};

/// None where some launch did not measure it.
std::optional<std::vector<double>> phase_times(std::span<const Launch* const> launches,
                                               std::size_t rank, record::Phase phase) {
    std::vector<double> times;
    for (const Launch* launch : launches) {
        if (rank >= launch->phases.size()) return {};
        const std::uint64_t ns = launch->phases[rank][static_cast<std::size_t>(phase)];
        if (ns == record::kNotMeasured) return {};
        times.push_back(static_cast<double>(ns));
    }
    return times;
}

}  // namespace

std::vector<Cause> find_causes(std::span<const Launch* const> base,
                               std::span<const Launch* const> next, double shift_ns) {
    struct Change {
        Cause cause;
        double amount;  ///< in the direction of the shift
    };
    std::vector<Change> changes;
    if (base.empty() || next.empty()) return {};
    for (const record::RankInfo& info : next.front()->ranks) {
        const auto rank = static_cast<std::size_t>(info.rank);
        for (const record::Phase phase : kSequence) {
            const auto before = phase_times(base, rank, phase);
            const auto after = phase_times(next, rank, phase);
            if (!before || !after) continue;
            const double change = hodges_lehmann(*before, *after).estimate;
            const double amount = shift_ns < 0 ? -change : change;
            if (amount <= 0) continue;
            const bool is_waiting = info.role == "rollout" && phase == record::Phase::Wire;
            changes.push_back({{info.rank, info.role, info.host, info.nic, phase, median(*before),
                                median(*after), is_waiting},
                               amount});
        }
    }
    const double enough = std::abs(shift_ns) / 2;
    std::sort(changes.begin(), changes.end(), [&](const Change& a, const Change& b) {
        const bool a_explains = a.amount >= enough && !a.cause.is_waiting;
        const bool b_explains = b.amount >= enough && !b.cause.is_waiting;
        return a_explains != b_explains ? a_explains : a.amount > b.amount;
    });
    std::vector<Cause> causes;
    for (const Change& change : changes) {
        const bool is_explained = !causes.empty() && !causes.front().is_waiting;
        if (causes.empty() ||
            (change.amount >= enough && !(is_explained && change.cause.is_waiting)))
            causes.push_back(change.cause);
    }
    return causes;
}

std::string in_common(std::span<const Cause> causes, std::span<const record::RankInfo> ranks) {
    std::set<std::int32_t> involved;
    for (const Cause& cause : causes)
        if (!cause.is_waiting) involved.insert(cause.rank);
    if (involved.size() < 2) return {};
    const auto shared = [&](std::string record::RankInfo::*member) -> std::string {
        std::set<std::string> theirs, others;
        for (const record::RankInfo& rank : ranks)
            (involved.contains(rank.rank) ? theirs : others).insert(rank.*member);
        const bool is_shared = theirs.size() == 1 && !others.empty();
        return is_shared && !others.contains(*theirs.begin()) ? *theirs.begin() : "";
    };
    if (const std::string host = shared(&record::RankInfo::host); !host.empty())
        return "host " + host;
    const std::string nic = shared(&record::RankInfo::nic);
    return nic.empty() ? "" : "NIC " + nic;
}

Slowest find_slowest(std::span<const Launch* const> launches) {
    std::map<std::int32_t, std::size_t> times_last;
    for (const Launch* launch : launches)
        if (launch->summary.slowest_rank >= 0) ++times_last[launch->summary.slowest_rank];
    Slowest slowest;
    for (const auto& [rank, count] : times_last)
        if (count > slowest.launches) {
            slowest.rank = rank;
            slowest.launches = count;
        }
    if (slowest.rank < 0) return slowest;
    for (const record::RankInfo& info : launches.front()->ranks)
        if (info.rank == slowest.rank) {
            slowest.host = info.host;
            slowest.nic = info.nic;
        }
    return slowest;
}

}  // namespace weightlift::compare
