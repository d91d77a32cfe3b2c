#include "weightlift/record/resume.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "weightlift/base/error.hpp"

#include "part_file.hpp"

namespace weightlift::record {

namespace {

namespace fs = std::filesystem;

std::string aside_of(const std::string& path) { return h5::part_of(path) + ".old"; }

/// A file without a byte is of a run that was killed before it recorded anything.
bool has_content(const std::string& file) {
    std::error_code error;
    const auto bytes = fs::file_size(file, error);
    return !error && bytes > 0;
}

}  // namespace

bool has_unfinished(const std::string& path) {
    std::error_code ignored;
    return fs::exists(h5::part_of(path), ignored) || fs::exists(aside_of(path), ignored);
}

std::optional<RunRecord> read_unfinished(const std::string& path) {
    const std::string part = h5::part_of(path);
    if (h5::writer_of(part) == h5::Writer::Alive)
        throw ResultsError(
            fmt::format("results file {}: the run that writes it is still alive", part));
    // Where both exist the copying was cut short: the old file has all of it.
    for (const std::string& file : {aside_of(path), part})
        if (has_content(file)) return read_results(file, true);
    return std::nullopt;
}

void set_aside(const std::string& path) {
    const std::string part = h5::part_of(path);
    std::error_code error;
    if (!fs::exists(part, error)) return;
    if (has_content(aside_of(path)) || !has_content(part))
        fs::remove(part, error);
    else
        fs::rename(part, aside_of(path), error);
    if (error)
        throw ResultsError(
            fmt::format("results file {}: cannot set it aside: {}", part, error.message()));
}

void copy_case(Recorder& recorder, const CaseRecord& one) {
    WEIGHTLIFT_ENSURES(one.outcome);
    const int number = recorder.begin_case(one.info, one.setup_ns.size(), one.setup_ns);
    for (const Sample& sample : one.samples) recorder.iteration(number, sample);
    recorder.fingerprints(number, one.fingerprints);
    recorder.traffic(number, one.traffic);
    recorder.nics(number, one.nics);
    recorder.case_ranks(number, one.ranks);
    recorder.end_case(number, *one.outcome);
}

void drop_aside(const std::string& path) {
    std::error_code error;
    fs::remove(aside_of(path), error);
    if (error)
        throw ResultsError(
            fmt::format("results file {}: cannot remove it: {}", aside_of(path), error.message()));
}

}  // namespace weightlift::record
