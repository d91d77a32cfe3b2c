#include <filesystem>

#include <fmt/format.h>

#include "weightlift/record/h5_file.hpp"

#include "part_file.hpp"
#include "schema.hpp"
#include "series.hpp"

namespace weightlift::record {
namespace h5 {
namespace {

[[noreturn]] void refuse_unfinished(const std::string& file) {
    throw ResultsError(fmt::format(
        "results file {} is of a run that is not finished; --allow-partial reads what it has",
        file));
}

struct Source {
    std::string file;
    bool is_part;
};

/// The file that holds the results of `path`: itself, or its .part.
Source find_source(const std::string& path, bool allow_partial) {
    std::error_code ignored;
    Source source{path, path.ends_with(".part")};
    if (!source.is_part && !std::filesystem::exists(path, ignored) &&
        std::filesystem::exists(part_of(path), ignored))
        source = {part_of(path), true};
    if (!std::filesystem::exists(source.file, ignored))
        throw ResultsError(fmt::format("results file {} does not exist", source.file));
    if (source.is_part && !allow_partial) refuse_unfinished(source.file);
    if (std::filesystem::is_regular_file(source.file, ignored) &&
        std::filesystem::file_size(source.file, ignored) == 0)
        throw ResultsError(fmt::format("results file {} is empty", source.file));
    if (!is_hdf5(source.file))
        throw ResultsError(
            fmt::format("results file {} is not an HDF5 file, or is not readable", source.file));
    return source;
}

/// A file that its writer did not close, being alive or killed, is open to SWMR readers only.
Handle open_to_read(const std::string& file, bool allow_partial) {
    try {
        return open_file(file, Access::Read);
    } catch (const ResultsError&) {
        if (!allow_partial) throw;
    }
    return open_file(file, Access::SwmrRead);
}

int read_int(hid_t object, const char* name) {
    const std::int64_t value = read_integer(object, name);
    if (!std::in_range<int>(value)) malformed(object, fmt::format("has the {} {}", name, value));
    return static_cast<int>(value);
}

CaseRecord read_case(hid_t file, const CaseInfo& info, std::size_t number, bool partial) {
    CaseRecord record;
    record.info = info;
    const std::string name = std::to_string(number);
    const Handle samples = open_group(file, "samples");
    const Handle group = open_group(samples.get(), name.c_str());
    if (const std::string key = read_text(group.get(), "case");
        key != bounded_text(info.key, kTextLimit))
        malformed(group.get(), fmt::format("is of case {}, not {}", key, info.key));
    if (has_attribute(group.get(), "settings")) {
        record.info.settings = read_text(group.get(), "settings");
        const std::int64_t repetition = read_integer(group.get(), "repetition");
        if (repetition < 0)
            malformed(group.get(), fmt::format("has the repetition {}", repetition));
        record.info.repetition = static_cast<std::uint64_t>(repetition);
    }
    if (has_attribute(group.get(), "status"))
        record.outcome = {read_text(group.get(), "status"), read_int(group.get(), "exit_code"),
                          read_text(group.get(), "reason")};
    record.setup_ns = read_setup(group.get());
    record.samples = read_samples(group.get(), partial);
    // Absent in a file that was not finished, and where there was nothing to say.
    const auto read_rows = [&]<class Row, std::size_t N>(const char* folder, std::vector<Row>& rows,
                                                         const Column<Row>(&columns)[N]) {
        if (!has_link(file, folder)) return;
        const Handle tables = open_group(file, folder);
        if (has_link(tables.get(), name.c_str()))
            rows = read_table<Row>(tables.get(), name.c_str(), columns);
    };
    read_rows("fingerprints", record.fingerprints, kFingerprintColumns);
    read_rows("traffic", record.traffic, kTrafficColumns);
    read_rows("nics", record.nics, kNicColumns);
    read_rows("case_ranks", record.ranks, kRankColumns);
    return record;
}

RunRecord read_file(const std::string& path, bool allow_partial) {
    const Source source = find_source(path, allow_partial);
    const Handle handle = open_to_read(source.file, allow_partial);
    const hid_t file = handle.get();

    RunRecord record;
    record.path = source.file;
    if (!has_attribute(file, "schema"))
        throw ResultsError(fmt::format(
            "results file {} is an HDF5 file, but not one that weightlift wrote", source.file));
    record.schema = read_int(file, "schema");
    if (record.schema != kSchema)
        throw ResultsError(fmt::format("results file {} has schema {}; this version reads {}{}",
                                       source.file, record.schema, kSchema,
                                       record.schema > kSchema ? ": a newer one wrote it" : ""));
    record.status = read_text(file, "status");
    const bool partial = record.status == "running";
    if (partial && !allow_partial) refuse_unfinished(source.file);
    if (partial && writer_of(source.file) == Writer::Gone) record.status = "aborted";
    record.exit_code = read_int(file, "exit_code");
    record.finished_utc = read_text(file, "finished_utc");
    record.run.run_uuid = read_text(file, "run_uuid");
    record.run.created_utc = read_text(file, "created_utc");
    record.run.tool_version = read_text(file, "tool_version");
    record.run.git = read_text(file, "git");
    record.run.command_line = read_text(file, "command_line");
    record.run.labels = read_text(file, "labels");
    record.run.provenance = read_table<NameValue>(file, "provenance", kProvenanceColumns);
    record.run.ranks = read_table<RankInfo>(file, "ranks", kRankColumns);

    const auto cases = read_table<CaseInfo>(file, "cases", kCaseColumns);
    for (std::size_t i = 0; i < cases.size(); ++i)
        record.cases.push_back(read_case(file, cases[i], i, partial));
    record.events = read_table<Event>(file, "events", kEventColumns);
    while (!record.events.empty() && record.events.back().rank == kNoEvent)
        record.events.pop_back();
    return record;
}

}  // namespace
}  // namespace h5

RunRecord read_results(const std::string& path, bool allow_partial) {
    h5::start_library();
    return h5::read_file(path, allow_partial);
}

std::string hdf5_version() {
    unsigned major = 0, minor = 0, release = 0;
    if (H5get_libversion(&major, &minor, &release) < 0)
        throw ResultsError("the HDF5 library does not tell its version");
    return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace weightlift::record
