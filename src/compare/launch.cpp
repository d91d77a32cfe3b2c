#include "weightlift/compare/launch.hpp"

#include <algorithm>

namespace weightlift::compare {

namespace {

std::uint64_t nearest_median(std::vector<std::uint64_t>& values) {
    if (values.empty()) return record::kNotMeasured;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::vector<PhaseMedians> phase_medians(const std::vector<record::Sample>& samples,
                                        std::size_t ranks) {
    std::vector<PhaseMedians> medians(ranks);
    std::vector<std::uint64_t> values;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t phase = 0; phase < record::kPhases; ++phase) {
            values.clear();
            for (const record::Sample& sample : samples)
                if (record::is_counted(sample) && rank < sample.phase_ns.size() &&
                    sample.phase_ns[rank][phase] != record::kNotMeasured)
                    values.push_back(sample.phase_ns[rank][phase]);
            medians[rank][phase] = nearest_median(values);
        }
    return medians;
}

}  // namespace

std::vector<Launch> launches_of(const record::RunRecord& run) {
    std::vector<Launch> launches;
    for (const record::CaseRecord& one : run.cases) {
        Launch& launch = launches.emplace_back();
        launch.path = run.path;
        launch.run_uuid = run.run.run_uuid;
        launch.created_utc = run.run.created_utc;
        launch.status = run.status;
        launch.exit_code = run.exit_code;
        launch.tool_version = run.run.tool_version;
        launch.git = run.run.git;
        launch.provenance = run.run.provenance;
        launch.ranks = run.run.ranks;
        launch.info = one.info;
        launch.summary = record::summarize(one.info, one.samples);
        launch.phases = phase_medians(one.samples, run.run.ranks.size());
    }
    return launches;
}

}  // namespace weightlift::compare
