#include "weightlift/compare/compare.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/compare/rank_test.hpp"

namespace weightlift::compare {

namespace {

using Side = std::vector<const Launch*>;

/// The launches of one case, in the order of their creation.
struct Pair {
    std::string name;
    Side base, next;
    std::size_t wrong = 0;  ///< launches of the new side with wrong data
};

std::vector<double> times_of(const Side& side) {
    std::vector<double> times;
    for (const Launch* launch : side) times.push_back(static_cast<double>(launch->time_ns()));
    return times;
}

/// Codes of a launch that pushed all it was asked to: right, wrong data, below a threshold.
bool is_whole(const Launch& launch) {
    return launch.exit_code == static_cast<int>(ExitCode::Ok) ||
           launch.exit_code == static_cast<int>(ExitCode::WrongData) ||
           launch.exit_code == static_cast<int>(ExitCode::Regression);
}

/// Launches that count, by time; notes say which do not. One run given twice would count twice.
Side usable(std::span<const Launch> launches, const char* side, std::vector<std::string>& notes) {
    Side list;
    std::set<std::pair<std::string, std::string>> seen;  // run, file
    for (const Launch& launch : launches) {
        for (const auto& [run, path] : seen)
            if (run == launch.run_uuid && path != launch.path)
                throw Error(ExitCode::NotComparable,
                            fmt::format("{}: {} and {} are copies of one run ({})", side, path,
                                        launch.path, run));
        seen.emplace(launch.run_uuid, launch.path);
        if (is_whole(launch))
            list.push_back(&launch);
        else
            notes.push_back(fmt::format("{}: left out {}: its run {} with exit code {}", side,
                                        launch.path, launch.status, launch.exit_code));
    }
    std::stable_sort(list.begin(), list.end(), [](const Launch* a, const Launch* b) {
        return a->created_utc < b->created_utc;
    });
    return list;
}

/// The cases of base, in its order. In history mode those of the new side, too: each has a first
/// night.
std::vector<Pair> pair_up(const Side& base, const Side& next, const Options& options,
                          std::vector<std::string>& notes) {
    std::vector<Pair> pairs;
    const auto find = [&](const std::string& name) {
        return std::find_if(pairs.begin(), pairs.end(),
                            [&](const Pair& pair) { return pair.name == name; });
    };
    for (const Launch* launch : base) {
        auto pair = find(launch->name);
        if (pair == pairs.end()) pair = pairs.insert(pairs.end(), {launch->name, {}, {}, 0});
        if (launch->summary.wrong > 0)
            notes.push_back(fmt::format("base: left out {}: {} of its pushes were wrong",
                                        launch->path, launch->summary.wrong));
        else if (launch->summary.iterations > 0)
            pair->base.push_back(launch);
    }
    std::set<std::string> only_new;
    for (const Launch* launch : next) {
        auto pair = find(launch->name);
        if (pair == pairs.end() && options.history > 0)
            pair = pairs.insert(pairs.end(), {launch->name, {}, {}, 0});
        if (pair == pairs.end()) {
            only_new.insert(launch->name);
            continue;
        }
        if (launch->summary.wrong > 0) ++pair->wrong;
        if (launch->summary.wrong > 0 || launch->summary.iterations > 0)
            pair->next.push_back(launch);
    }
    for (const std::string& key : only_new)
        notes.push_back(fmt::format("only in new, not compared: {}", key));
    return pairs;
}

std::string list_differences(const std::vector<Difference>& differences, const Launch& base,
                             const Launch& next) {
    std::vector<std::string> fields;
    for (const Difference& d : differences)
        fields.push_back(fmt::format("{} is {} and {}", d.field, d.base, d.next));
    return fmt::format("{} in {} and {}", fmt::join(fields, ", "), base.path, next.path);
}

/// All launches of a case must be alike, those of one side as well.
void require_comparable(const std::vector<Pair>& pairs, const Side& base, const Side& next) {
    std::vector<std::string> reasons;
    bool is_shared = false;
    for (const Pair& pair : pairs) {
        is_shared = is_shared || !pair.next.empty();
        std::set<std::string> named;  // fields
        const auto look_at = [&](const Side& side) {
            for (const Launch* launch : side) {
                std::vector<Difference> fresh;
                for (Difference& d : gate(*pair.base.front(), *launch))
                    if (named.insert(d.field).second) fresh.push_back(std::move(d));
                if (!fresh.empty())
                    reasons.push_back(fmt::format(
                        "{}: {}", pair.name, list_differences(fresh, *pair.base.front(), *launch)));
            }
        };
        if (pair.base.empty()) continue;
        look_at(pair.base);
        look_at(pair.next);
    }
    if (!is_shared && !base.empty() && !next.empty())
        reasons.push_back(fmt::format(
            "no case is on both sides: {}",
            list_differences(gate(*base.front(), *next.front()), *base.front(), *next.front())));
    if (!reasons.empty())
        throw Error(ExitCode::NotComparable,
                    fmt::format("not comparable: {}", fmt::join(reasons, "; ")));
}

double least_p(const Options& options, std::size_t base, std::size_t next) {
    return options.history > 0 ? 1 / static_cast<double>(base + 1) : smallest_p(base, next);
}

/// Launches (a side, or of the history) with which `cases` equal cases could be decided.
std::size_t launches_needed(const Options& options, std::size_t cases) {
    std::size_t n = options.history > 0 ? 1 : kLeastLaunches;
    while (least_p(options, n, n) * static_cast<double>(cases) >= kLevel) ++n;
    return n;
}

std::string plural(std::size_t count, const char* noun) {
    const bool hisses = std::string_view(noun).ends_with("h");
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : hisses ? "es" : "s");
}

/// Why no p-value of this case can be small enough, or "".
std::string why_undecidable(const Options& options, std::size_t base, std::size_t next,
                            double least_adjusted, std::size_t cases) {
    const std::string over = cases > 1 ? fmt::format(" after Holm over {} cases", cases) : "";
    if (options.history > 0) {
        if (least_adjusted < kLevel) return {};
        return fmt::format("{} allow no p below 1/{} = {:.4f}, so none under {}{}: {} are needed",
                           plural(base, "earlier launch"), base + 1,
                           1 / static_cast<double>(base + 1), kLevel, over,
                           launches_needed(options, cases));
    }
    if (base < kLeastLaunches || next < kLeastLaunches)
        return fmt::format("{} against {} launches: at least {} a side are needed", next, base,
                           launches_needed(options, cases));
    if (least_adjusted < kLevel) return {};
    return fmt::format("{} against {} launches allow no p under {}{}: {} a side are needed", next,
                       base, kLevel, over, launches_needed(options, cases));
}

/// Fills verdict and reason from the test.
void decide(CaseResult& result, const Options& options, double p_slower, double p_faster) {
    const double change = result.change().value_or(0);
    const double limit = options.threshold;
    if (p_slower < kLevel && change > limit) {
        result.verdict = Verdict::Slower;
    } else if (p_faster < kLevel && change < -limit) {
        result.verdict = Verdict::Faster;
    } else if (options.history > 0) {
        if (std::abs(change) <= limit) {
            result.verdict = Verdict::Same;
        } else {
            result.reason =
                fmt::format("{:+.1f} % against the median night, but nights as far off were seen",
                            100 * change);
        }
    } else {
        const auto& interval = result.shift_ns->interval;
        const double allowed = limit * *result.base_ns;
        if (interval && interval->low >= -allowed && interval->high <= allowed)
            result.verdict = Verdict::Same;
        else
            result.reason =
                fmt::format("too noisy: the change may be beyond the threshold of {:.3g} %, or not",
                            100 * limit);
    }
}

CaseResult describe_sides(const Pair& pair) {
    CaseResult result;
    result.key = pair.name;
    result.base_launches = pair.base.size();
    result.new_launches = pair.next.size();
    result.base_slowest = find_slowest(pair.base);
    result.new_slowest = find_slowest(pair.next);
    if (!pair.base.empty()) result.base_ns = median(times_of(pair.base));
    if (pair.wrong > 0) {
        result.verdict = Verdict::WrongData;
        std::uint64_t pushes = 0;
        std::string first;
        for (const Launch* launch : pair.next) {
            pushes += launch->summary.wrong;
            if (launch->summary.wrong > 0 && first.empty()) first = launch->path;
        }
        result.reason = fmt::format("{} in {} of {}, first in {}", plural(pushes, "wrong push"),
                                    pair.wrong, plural(pair.next.size(), "launch"), first);
        return result;
    }
    if (pair.next.empty()) {
        result.verdict = Verdict::Missing;
        result.reason = "new has no launch of it";
        return result;
    }
    result.new_ns = median(times_of(pair.next));
    return result;
}

/// References are held against the medians over the new launches of each metric.
std::vector<OutOfBounds> check_bounds(const Pair& pair, const std::vector<Reference>& references) {
    std::vector<OutOfBounds> broken;
    for (const Launch* launch : pair.next)
        if (auto floor = check_floor(launch->info, launch->summary)) {
            broken.push_back(std::move(*floor));
            break;
        }
    // The launch in the middle by time stands for all: its metrics belong together.
    if (pair.next.empty()) return broken;
    Side sorted = pair.next;
    std::sort(sorted.begin(), sorted.end(),
              [](const Launch* a, const Launch* b) { return a->time_ns() < b->time_ns(); });
    const Launch& middle = *sorted[(sorted.size() - 1) / 2];
    for (OutOfBounds& bound : check(references, middle.info, middle.summary))
        broken.push_back(std::move(bound));
    return broken;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
    switch (verdict) {
        case Verdict::Same: return "same";
        case Verdict::Faster: return "faster";
        case Verdict::Slower: return "slower";
        case Verdict::Inconclusive: return "inconclusive";
        case Verdict::WrongData: return "wrong data";
        case Verdict::Missing: return "missing";
    }
    return "unknown";
}

std::optional<double> CaseResult::change() const {
    if (!shift_ns || !base_ns || *base_ns <= 0) return {};
    return shift_ns->estimate / *base_ns;
}

Comparison compare(std::span<const Launch> base_launches, std::span<const Launch> new_launches,
                   const Options& options) {
    Comparison out;
    const Side next = usable(new_launches, "new", out.notes);
    Side base = usable(base_launches, "base", out.notes);
    if (options.history > 0)  // the new night may lie in the same folder
        std::erase_if(base, [&](const Launch* launch) {
            return std::any_of(next.begin(), next.end(), [&](const Launch* other) {
                return other->run_uuid == launch->run_uuid;
            });
        });
    std::vector<Pair> pairs = pair_up(base, next, options, out.notes);
    if (pairs.empty())
        throw Error(ExitCode::NotComparable,
                    "not comparable: base has no launch that ran to its end");
    for (Pair& pair : pairs) {
        if (options.history == 0) continue;
        if (pair.next.size() > 1)
            throw ConfigError(
                fmt::format("--history holds one new launch against the nights "
                            "before; {} has {}",
                            pair.name, pair.next.size()));
        if (pair.base.size() > options.history)
            pair.base.erase(pair.base.begin(),
                            pair.base.end() - static_cast<std::ptrdiff_t>(options.history));
    }
    require_comparable(pairs, base, next);

    struct Tested {
        std::size_t index;
        double p, opposite, least;
    };
    std::vector<Tested> tested;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        const Pair& pair = pairs[i];
        CaseResult& result = out.cases.emplace_back(describe_sides(pair));
        result.out_of_bounds = check_bounds(pair, options.references);
        if (result.verdict == Verdict::WrongData || result.verdict == Verdict::Missing) continue;
        if (pair.base.empty()) {
            result.reason = options.history > 0 ? "no earlier launch of it"
                                                : "base has no launch of it that is right";
            continue;
        }
        const std::vector<double> before = times_of(pair.base), after = times_of(pair.next);
        result.shift_ns = hodges_lehmann(before, after);
        const double least = least_p(options, before.size(), after.size());
        if (options.history > 0) {
            std::vector<double> negated;
            for (const double time : before) negated.push_back(-time);
            tested.push_back({i, rank_p(before, after[0]), rank_p(negated, -after[0]), least});
        } else if (before.size() >= kLeastLaunches && after.size() >= kLeastLaunches) {
            const RankTest test = mann_whitney(before, after);
            result.is_exact = test.is_exact;
            tested.push_back({i, test.p, test.p, least});
        } else {
            result.reason = why_undecidable(options, before.size(), after.size(), 1, 1);
        }
    }

    const auto adjusted = [&](double Tested::*member) {
        std::vector<double> p;
        for (const Tested& test : tested) p.push_back(test.*member);
        return holm(p);
    };
    const std::vector<double> p = adjusted(&Tested::p), opposite = adjusted(&Tested::opposite),
                              least = adjusted(&Tested::least);
    for (std::size_t t = 0; t < tested.size(); ++t) {
        CaseResult& result = out.cases[tested[t].index];
        const Pair& pair = pairs[tested[t].index];
        result.p = tested[t].p;
        result.adjusted_p = p[t];
        result.reason =
            why_undecidable(options, pair.base.size(), pair.next.size(), least[t], tested.size());
        if (result.reason.empty()) decide(result, options, p[t], opposite[t]);
        if (result.verdict == Verdict::Slower || result.verdict == Verdict::Faster) {
            result.causes = find_causes(pair.base, pair.next, result.shift_ns->estimate);
            result.in_common = in_common(result.causes, pair.next.front()->ranks);
        }
    }
    out.differences = provenance_differences(base, next);
    return out;
}

ExitCode judge(const Comparison& comparison, MissingCases missing, Inconclusive inconclusive) {
    const auto fails = [&](const CaseResult& result) {
        switch (result.verdict) {
            case Verdict::Slower:
            case Verdict::WrongData: return true;
            case Verdict::Missing: return missing == MissingCases::Fail;
            case Verdict::Inconclusive:
                if (inconclusive == Inconclusive::Fail) return true;
                break;
            case Verdict::Same:
            case Verdict::Faster: break;
        }
        return !result.out_of_bounds.empty();
    };
    return std::any_of(comparison.cases.begin(), comparison.cases.end(), fails)
               ? ExitCode::Regression
               : ExitCode::Ok;
}

}  // namespace weightlift::compare
