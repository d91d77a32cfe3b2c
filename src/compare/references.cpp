#include "weightlift/compare/references.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weightlift/base/error.hpp"

namespace weightlift::compare {

namespace {

using record::CaseInfo;
using record::kNotMeasured;
using record::Summary;

constexpr std::string_view kSchema = "weightlift-references/1";
constexpr double kFloorTolerance = 0.95;  ///< as in push: rates given are round numbers

std::optional<double> ms(std::uint64_t ns) {
    if (ns == kNotMeasured) return {};
    return static_cast<double>(ns) / 1e6;
}

std::optional<double> gb(double bytes_per_second) {
    if (bytes_per_second <= 0) return {};
    return bytes_per_second / 1e9;
}

struct Metric {
    std::string_view name;
    bool is_higher_better;
    std::optional<double> (*value)(const CaseInfo&, const Summary&);
};

constexpr std::array kMetrics = {
    Metric{"first_ms", false, [](const CaseInfo&, const Summary& s) { return ms(s.first_ns); }},
    Metric{"min_ms", false, [](const CaseInfo&, const Summary& s) { return ms(s.min_ns); }},
    Metric{"p50_ms", false, [](const CaseInfo&, const Summary& s) { return ms(s.p50_ns); }},
    Metric{"p99_ms", false, [](const CaseInfo&, const Summary& s) { return ms(s.p99_ns); }},
    Metric{"max_ms", false, [](const CaseInfo&, const Summary& s) { return ms(s.max_ns); }},
    Metric{"x_floor", false,
           [](const CaseInfo& info, const Summary& s) -> std::optional<double> {
               if (s.p50_ns == kNotMeasured || info.floor_ns == kNotMeasured || info.floor_ns == 0)
                   return {};
               return static_cast<double>(s.p50_ns) / static_cast<double>(info.floor_ns);
           }},
    Metric{"algbw_gb_per_s", true, [](const CaseInfo&, const Summary& s) { return gb(s.algbw); }},
    Metric{"portbw_gb_per_s", true, [](const CaseInfo&, const Summary& s) { return gb(s.portbw); }},
    Metric{"line_percent", true,
           [](const CaseInfo& info, const Summary& s) -> std::optional<double> {
               if (info.line_rate == kNotMeasured || info.line_rate == 0 || s.portbw <= 0)
                   return {};
               return 100 * s.portbw / static_cast<double>(info.line_rate);
           }},
};

const Metric* find_metric(std::string_view name) {
    for (const Metric& metric : kMetrics)
        if (metric.name == name) return &metric;
    return nullptr;
}

Reference parse_reference(const nlohmann::json& entry) {
    if (!entry.is_object()) throw ConfigError("is not an object");
    Reference reference;
    for (const auto& [name, value] : entry.items()) {
        if (name == "case" || name == "metric") {
            if (!value.is_string()) throw ConfigError(fmt::format("{} is not a string", name));
            (name == "case" ? reference.key : reference.metric) = value.get<std::string>();
        } else if (name == "lower" || name == "upper") {
            if (!value.is_number()) throw ConfigError(fmt::format("{} is not a number", name));
            (name == "lower" ? reference.lower : reference.upper) = value.get<double>();
        } else {
            throw ConfigError(
                fmt::format("has the key {}, which is not case, metric, lower or upper", name));
        }
    }
    if (reference.key.empty()) throw ConfigError("names no case");
    if (find_metric(reference.metric) == nullptr) {
        std::vector<std::string_view> names;
        for (const Metric& metric : kMetrics) names.push_back(metric.name);
        throw ConfigError(
            fmt::format("metric '{}' is not one of {}", reference.metric, fmt::join(names, ", ")));
    }
    if (!reference.lower && !reference.upper) throw ConfigError("has neither lower nor upper");
    if (reference.lower && reference.upper && *reference.lower > *reference.upper)
        throw ConfigError(fmt::format("has the lower bound {} above the upper {}", *reference.lower,
                                      *reference.upper));
    return reference;
}

}  // namespace

std::vector<Reference> parse_references(std::string_view text, const std::string& source) {
    const auto document = nlohmann::json::parse(text, nullptr, false);
    if (document.is_discarded()) throw ConfigError(fmt::format("{}: is not JSON", source));
    if (!document.is_object() || document.value("schema", nlohmann::json()) != kSchema)
        throw ConfigError(fmt::format("{}: schema is not {}", source, kSchema));
    const auto list = document.find("references");
    if (list == document.end() || !list->is_array())
        throw ConfigError(fmt::format("{}: references is not a list", source));
    std::vector<Reference> references;
    for (const auto& entry : *list) try {
            references.push_back(parse_reference(entry));
        } catch (const ConfigError& error) {
            throw ConfigError(
                fmt::format("{}: references[{}] {}", source, references.size(), error.what()));
        }
    return references;
}

std::string describe(const OutOfBounds& bound) {
    if (!bound.measured)
        return fmt::format("{}: {} is not measured, and {} wants {} {:.4g}", bound.key,
                           bound.metric, bound.source, bound.is_below ? "at least" : "at most",
                           bound.bound);
    return fmt::format("{}: {} is {:.4g}, {} the {:.4g} of {}{}", bound.key, bound.metric,
                       *bound.measured, bound.is_below ? "below" : "above", bound.bound,
                       bound.source, bound.is_implausible ? ": implausibly good" : "");
}

std::optional<double> value_of(std::string_view metric, const CaseInfo& info,
                               const Summary& summary) {
    const Metric* known = find_metric(metric);
    return known == nullptr ? std::nullopt : known->value(info, summary);
}

std::vector<OutOfBounds> check(std::span<const Reference> references, const CaseInfo& info,
                               const Summary& summary) {
    std::vector<OutOfBounds> broken;
    for (const Reference& reference : references) {
        if (reference.key != info.key) continue;
        const Metric* metric = find_metric(reference.metric);
        WEIGHTLIFT_ENSURES(metric != nullptr);
        const std::optional<double> measured = metric->value(info, summary);
        const auto add = [&](double bound, bool is_below) {
            broken.push_back({info.key, reference.metric, measured, bound, is_below,
                              measured && is_below != metric->is_higher_better, "the reference"});
        };
        if (reference.lower && (!measured || *measured < *reference.lower))
            add(*reference.lower, true);
        if (reference.upper && (!measured || *measured > *reference.upper))
            add(*reference.upper, false);
    }
    return broken;
}

std::optional<OutOfBounds> check_floor(const CaseInfo& info, const Summary& summary) {
    const std::optional<double> measured = value_of("x_floor", info, summary);
    if (!measured || *measured >= kFloorTolerance) return {};
    return OutOfBounds{info.key, "x_floor", measured, kFloorTolerance, true, true, "the floor"};
}

}  // namespace weightlift::compare
