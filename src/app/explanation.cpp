#include "explanation.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightlift/base/error.hpp"

#include "prediction_text.hpp"
#include "text.hpp"

namespace weightlift::app {

namespace {

const NamedSeconds* find(const std::vector<NamedSeconds>& phases, const std::string& name) {
    const auto at = std::find_if(phases.begin(), phases.end(),
                                 [&](const NamedSeconds& p) { return p.name == name; });
    return at == phases.end() ? nullptr : &*at;
}

using record::Phase;
/// These follow one another on a rank.
constexpr Phase kInARow[] = {Phase::Prepare,    Phase::Post,   Phase::Wire,
                             Phase::Visibility, Phase::Commit, Phase::Finalize};

double seconds_of(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

/// What no line accounts for; negative where they add up to more than was observed.
double unexplained(const Explanation& e) {
    double left = e.observed;
    for (const Explanation::Line& line : e.lines) left -= line.seconds.value_or(0);
    return left;
}

}  // namespace

std::vector<NamedSeconds> parse_phases(const std::string& text, const char* flag) {
    std::vector<NamedSeconds> phases;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        const std::size_t equals = part.find('=');
        if (equals == std::string::npos || equals == 0)
            throw ConfigError(fmt::format("{} {}: {} is not NAME=TIME", flag, text, part));
        const std::string name = part.substr(0, equals);
        if (find(phases, name) != nullptr)
            throw ConfigError(fmt::format("{} {}: {} is there twice", flag, text, name));
        phases.push_back(
            {name,
             std::chrono::duration<double>(parse_duration(part.substr(equals + 1), flag)).count()});
        begin = end + 1;
    }
    return phases;
}

Explanation explain(const sim::StrategyPrediction& strategy, const sim::Prediction& floor,
                    const sim::Fabric& fabric, double observed,
                    const std::vector<NamedSeconds>& phases) {
    Explanation out;
    out.observed = observed;
    std::string busiest = "nothing moves";
    if (!floor.busiest.empty()) {
        const sim::Port& port = floor.busiest.front();
        busiest = fmt::format("{}: {}, {} messages", name_of(port, fabric), human_bytes(port.bytes),
                              port.messages);
    }
    out.lines.push_back({"floor", floor.seconds(), busiest});
    double steps = 0;
    std::string how;
    for (const auto& step : strategy.steps) {
        const NamedSeconds* given = find(phases, step.name);
        const double seconds = given != nullptr ? given->seconds : step.seconds;
        steps += seconds;
        how += fmt::format(
            "{}{} {:.3f} {}", how.empty() ? "" : ", ", step.name, seconds,
            given != nullptr ? fmt::format("given (modelled {:.3f})", step.seconds) : "modelled");
    }
    out.lines.push_back({fmt::format("{} beyond it", strategy.name), steps - floor.seconds(), how});
    for (const NamedSeconds& phase : phases)
        if (std::none_of(strategy.steps.begin(), strategy.steps.end(),
                         [&](const auto& step) { return step.name == phase.name; }))
            out.lines.push_back({phase.name, phase.seconds, "given"});
    return out;
}

std::optional<Explanation> explain(const record::CaseRecord& one) {
    const record::Summary summary = record::summarize(one.info, one.samples);
    const auto sample = std::find_if(one.samples.begin(), one.samples.end(), [&](const auto& s) {
        return record::is_counted(s) && s.time_ns == summary.p50_ns;
    });
    if (sample == one.samples.end()) return std::nullopt;
    // The last rank may only have waited for others: the one that was busy for longest says more.
    const auto busy = [](const record::PhaseTimes& phases) {
        std::uint64_t sum = 0;
        for (const Phase phase : kInARow)
            if (const auto ns = phases[static_cast<std::size_t>(phase)]; ns != record::kNotMeasured)
                sum += ns;
        return sum;
    };
    const auto busiest =
        std::max_element(sample->phase_ns.begin(), sample->phase_ns.end(),
                         [&](const auto& x, const auto& y) { return busy(x) < busy(y); });
    if (busiest == sample->phase_ns.end()) return std::nullopt;
    const auto rank = busiest - sample->phase_ns.begin();
    const record::PhaseTimes& phases = *busiest;

    Explanation out;
    out.title = fmt::format("{}\nthe iteration at p50, rank {}, whose phases add up to most",
                            one.info.key, rank);
    out.observed = seconds_of(sample->time_ns);
    double floor = 0;
    if (one.info.floor_ns == record::kNotMeasured) {
        out.lines.push_back({"floor", std::nullopt, "the push was given no --cluster"});
    } else {
        floor = seconds_of(one.info.floor_ns);
        out.lines.push_back({"floor", floor, "of the plan, for the rates of its --cluster"});
    }
    // The floor is time on the wire.
    for (const Phase phase : kInARow) {
        const std::uint64_t ns = phases[static_cast<std::size_t>(phase)];
        if (ns == record::kNotMeasured) continue;
        const std::string name(to_string(phase));
        if (phase == Phase::Wire && floor > 0)
            out.lines.push_back({"wire beyond the floor", seconds_of(ns) - floor,
                                 fmt::format("of {}", milliseconds(seconds_of(ns)))});
        else
            out.lines.push_back({name, seconds_of(ns), "measured"});
    }
    return out;
}

std::string explanation_text(const Explanation& e) {
    const auto share = [&](double seconds) {
        return e.observed > 0 ? fmt::format("{:.1f} %", 100 * seconds / e.observed) : "-";
    };
    // Names and reasons are texts of any length: to the left.
    struct Row {
        std::string name, milliseconds, share, why;
    };
    std::vector<Row> rows{{"", "ms", "share", ""}};
    const auto add = [&](const std::string& name, double seconds, const std::string& why) {
        const std::string ms = show_ms(static_cast<std::uint64_t>(std::abs(seconds) * 1e9));
        const bool is_negative = seconds < 0 && ms.find_first_not_of("0.") != std::string::npos;
        rows.push_back({name, (is_negative ? "-" : "") + ms, share(seconds), why});
    };
    for (const Explanation::Line& line : e.lines)
        if (line.seconds)
            add(line.name, *line.seconds, line.why);
        else
            rows.push_back({line.name, "N/A", "", line.why});
    const double left = unexplained(e);
    add("unexplained", left,
        left < -1e-3 * e.observed
            ? "these add up to more than was observed: some overlap, or the model is too slow"
            : "neither modelled nor measured");
    add("observed", e.observed, "");
    std::size_t width = 0;
    for (const Row& row : rows) width = std::max(width, row.name.size());
    std::string text = e.title + '\n';
    for (const Row& row : rows) {
        std::string line = fmt::format("{:<{}}  {:>8}  {:>8}  {}", row.name, width,
                                       row.milliseconds, row.share, row.why);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
    }
    return text;
}

std::string explanations_json(const std::vector<Explanation>& explanations) {
    using Json = nlohmann::ordered_json;
    const auto ns = [](double seconds) { return Json(std::llround(seconds * 1e9)); };
    Json json{{"schema", "weightlift-explanation/1"}, {"explanations", Json::array()}};
    for (const Explanation& e : explanations) {
        Json& item = json["explanations"].emplace_back();
        std::istringstream title(e.title);
        for (std::string line; std::getline(title, line);) item["title"].push_back(line);
        item["observed_ns"] = e.lines.empty() ? Json(nullptr) : ns(e.observed);
        item["lines"] = Json::array();
        for (const Explanation::Line& line : e.lines)
            item["lines"].push_back({{"name", line.name},
                                     {"ns", line.seconds ? ns(*line.seconds) : Json(nullptr)},
                                     {"why", line.why}});
        item["unexplained_ns"] = e.lines.empty() ? Json(nullptr) : ns(unexplained(e));
    }
    return json.dump(2) + '\n';
}

}  // namespace weightlift::app
