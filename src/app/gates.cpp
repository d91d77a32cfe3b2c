#include "gates.hpp"

#include "catalog.hpp"
#include "text.hpp"

namespace weightlift::app {

Gates parse_gates(const GateOptions& options) {
    Gates gates;
    if (!options.min_line.empty())
        gates.least_line_percent = 100 * parse_percent(options.min_line, "--min-line");
    if (!options.max_time.empty())
        gates.most_p50_ms =
            static_cast<double>(parse_duration(options.max_time, "--max-time").count()) / 1e6;
    return gates;
}

Gates load_gates(const GateOptions& options) {
    Gates gates = parse_gates(options);
    if (const std::string& file = options.references; !file.empty())
        gates.references = compare::parse_references(read_text(file), file);
    return gates;
}

std::vector<compare::OutOfBounds> broken_gates(const Gates& gates, const record::CaseInfo& info,
                                               const record::Summary& summary) {
    std::vector<compare::OutOfBounds> broken;
    // A bound on what was not measured was not kept.
    if (const auto& most = gates.most_p50_ms) {
        const auto p50 = compare::value_of("p50_ms", info, summary);
        if (!p50 || *p50 > *most)
            broken.push_back({info.key, "p50_ms", p50, *most, false, false, "--max-time"});
    }
    if (const auto& least = gates.least_line_percent) {
        const auto line = compare::value_of("line_percent", info, summary);
        if (!line || *line < *least)
            broken.push_back({info.key, "line_percent", line, *least, true, false, "--min-line"});
    }
    for (compare::OutOfBounds& bound : check(gates.references, info, summary))
        broken.push_back(std::move(bound));
    return broken;
}

}  // namespace weightlift::app
