// The Recorder that writes results files. PATH.part is at any moment a complete HDF5 file: rows are
// appended under SWMR, everything else is changed in a copy that then replaces it (part_file.hpp).
#include <ctime>
#include <functional>
#include <optional>

#include <fmt/chrono.h>

#include "weightlift/record/h5_file.hpp"

#include "part_file.hpp"
#include "schema.hpp"
#include "series.hpp"

namespace weightlift::record::h5 {
namespace {

/// Now, as ISO 8601 with seconds.
std::string utc_now() { return fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))); }

class FileRecorder final : public Recorder {
public:
    explicit FileRecorder(std::string path) : path_(std::move(path)) {
        start_library();
        reserve_part(path_);
        try {
            Handle file = create_file(staging_of(path_));
            write_empty(file.get());
            close_file(file);
            adopt_staging();
        } catch (...) {
            release_part(path_);
            throw;
        }
    }
    ~FileRecorder() override { remove_staging(path_); }

    void begin_run(const RunInfo& run) override {
        change_file([&](hid_t file) {
            write_text(file, "run_uuid", run.run_uuid);
            write_text(file, "created_utc", run.created_utc);
            write_text(file, "tool_version", run.tool_version);
            write_text(file, "git", run.git);
            write_text(file, "command_line", run.command_line);
            write_text(file, "labels", run.labels);
            write_table<NameValue>(file, "provenance", kProvenanceColumns, run.provenance);
            write_table<RankInfo>(file, "ranks", kRankColumns, run.ranks);
        });
        adopt_staging();
    }

    int begin_case(const CaseInfo& info, std::size_t ranks,
                   const std::vector<SetupTimes>& setup_ns) override {
        WEIGHTLIFT_ENSURES(ranks > 0 && setup_ns.size() == ranks);
        std::vector<CaseInfo> infos;
        for (const Case& earlier : cases_) infos.push_back(earlier.info);
        infos.push_back(info);
        const std::string name = std::to_string(cases_.size());
        change_file([&](hid_t file) {
            write_table<CaseInfo>(file, "cases", kCaseColumns, infos);
            const Handle samples = open_group(file, "samples");
            const Handle group = create_group(samples.get(), name.c_str());
            write_text(group.get(), "case", info.key);
            if (!info.settings.empty()) {
                write_text(group.get(), "settings", info.settings);
                write_integer(group.get(), "repetition",
                              narrow<std::int64_t>(info.repetition, "repetition"));
            }
            create_samples(group.get(), ranks, setup_ns);
        });
        adopt_staging();
        cases_.push_back({.info = info, .ranks = ranks});
        return narrow<int>(cases_.size() - 1, "case number");
    }

    void iteration(int case_number, const Sample& sample) override {
        Case& entry = case_at(case_number);
        WEIGHTLIFT_ENSURES(sample.rank_time_ns.size() == entry.ranks &&
                           sample.phase_ns.size() == entry.ranks);
        expect_open();
        if (!entry.appender) {
            const Handle samples = open_group(file_.get(), "samples");
            const Handle group = open_group(samples.get(), std::to_string(case_number).c_str());
            entry.appender.emplace(group.get(), entry.ranks, entry.samples.size());
        }
        entry.appender->append(sample);
        entry.samples.push_back(sample);
        entry.samples.back().phase_ns.clear();  // no part of a summary, and ten times the rest
    }

    void event(const Event& event) override {
        expect_open();
        const RowFormat format = event_format();
        std::vector<std::byte> row(format.bytes);
        pack<Event>(kEventColumns, format, event, row.data());
        append_packed(events_.get(), format, row);
    }

    void fingerprints(int case_number, std::span<const FingerprintRow> rows) override {
        WEIGHTLIFT_ENSURES(!case_at(case_number).fingerprints);
        case_at(case_number).fingerprints.emplace(rows.begin(), rows.end());
    }

    void traffic(int case_number, std::span<const TrafficRow> rows) override {
        WEIGHTLIFT_ENSURES(!case_at(case_number).traffic);
        case_at(case_number).traffic.emplace(rows.begin(), rows.end());
    }

    void nics(int case_number, std::span<const NicRow> rows) override {
        WEIGHTLIFT_ENSURES(!case_at(case_number).nics);
        case_at(case_number).nics.emplace(rows.begin(), rows.end());
    }

    void case_ranks(int case_number, std::span<const RankInfo> rows) override {
        WEIGHTLIFT_ENSURES(!case_at(case_number).case_ranks);
        case_at(case_number).case_ranks.emplace(rows.begin(), rows.end());
    }

    void end_case(int case_number, const CaseOutcome& outcome) override {
        Case& entry = case_at(case_number);
        WEIGHTLIFT_ENSURES(!entry.has_ended);
        change_file([&](hid_t file) {
            write_details(file, case_number);
            const Handle samples = open_group(file, "samples");
            const Handle group = open_group(samples.get(), std::to_string(case_number).c_str());
            write_text(group.get(), "status", outcome.status);
            write_integer(group.get(), "exit_code", outcome.exit_code);
            write_text(group.get(), "reason", outcome.reason);
        });
        adopt_staging();
        entry.has_ended = true;
    }

    void finish(std::string_view status, ExitCode exit_code) override {
        WEIGHTLIFT_ENSURES(status == "complete" || status == "failed" || status == "aborted");
        change_file([&](hid_t file) {
            write_outcome(file);
            write_text(file, "status", status);
            write_integer(file, "exit_code", static_cast<int>(exit_code));
            write_text(file, "finished_utc", utc_now());
        });
        replace_part(path_);
        publish_part(path_);
    }

private:
    struct Case {
        CaseInfo info;
        std::size_t ranks = 0;
        std::vector<Sample> samples{};  ///< without phases, for the summary
        std::optional<std::vector<FingerprintRow>> fingerprints{};
        std::optional<std::vector<TrafficRow>> traffic{};
        std::optional<std::vector<NicRow>> nics{};
        std::optional<std::vector<RankInfo>> case_ranks{};
        bool has_ended = false;                    ///< the four above are in the file
        std::optional<SampleAppender> appender{};  ///< open while the file is, once needed
    };

    Case& case_at(int number) {
        WEIGHTLIFT_ENSURES(number >= 0 && static_cast<std::size_t>(number) < cases_.size());
        return cases_[static_cast<std::size_t>(number)];
    }

    void expect_open() const {
        if (!file_)
            throw ResultsError(fmt::format("results file {} takes no more after an earlier error",
                                           part_of(path_)));
    }

    static RowFormat event_format() { return row_format<Event>(kEventColumns, kEventWidths); }

    /// All that a file without a run has: what is filled in later is there, empty.
    static void write_empty(hid_t file) {
        write_integer(file, "schema", kSchema);
        write_text(file, "status", "running");
        write_integer(file, "exit_code", -1);
        for (const char* name : {"run_uuid", "created_utc", "finished_utc", "tool_version", "git",
                                 "command_line", "labels"})
            write_text(file, name, "");
        write_table<NameValue>(file, "provenance", kProvenanceColumns, {});
        write_table<RankInfo>(file, "ranks", kRankColumns, {});
        write_table<CaseInfo>(file, "cases", kCaseColumns, {});
        const Handle samples = create_group(file, "samples");

        const RowFormat format = event_format();
        std::vector<std::byte> no_event(format.bytes);
        pack<Event>(kEventColumns, format, Event{{}, {}, {}, kNoEvent}, no_event.data());
        const Handle events = create_table(file, "events", format, 0, 1, no_event.data());
    }

    /// Row lists of one case, each a table named after it.
    template <class Row, std::size_t N>
    static void write_rows_of(hid_t file, const char* folder, int number,
                              const Column<Row> (&columns)[N],
                              const std::optional<std::vector<Row>>& rows) {
        const Handle group =
            has_link(file, folder) ? open_group(file, folder) : create_group(file, folder);
        if (rows) write_table<Row>(group.get(), std::to_string(number).c_str(), columns, *rows);
    }

    void write_details(hid_t file, int number) {
        const Case& entry = case_at(number);
        write_rows_of(file, "fingerprints", number, kFingerprintColumns, entry.fingerprints);
        write_rows_of(file, "traffic", number, kTrafficColumns, entry.traffic);
        write_rows_of(file, "nics", number, kNicColumns, entry.nics);
        if (entry.case_ranks)
            write_rows_of(file, "case_ranks", number, kRankColumns, entry.case_ranks);
    }

    void write_outcome(hid_t file) {
        std::vector<SummaryRow> summaries;
        for (std::size_t i = 0; i < cases_.size(); ++i) {
            summaries.push_back({summarize(cases_[i].info, cases_[i].samples), cases_[i].info.key});
            if (!cases_[i].has_ended) write_details(file, static_cast<int>(i));
        }
        write_table<SummaryRow>(file, "summary", kSummaryColumns, summaries);
    }

    /// Closes PATH.part and applies `change` to a copy of it, PATH.part.next.
    void change_file(const std::function<void(hid_t file)>& change) {
        for (Case& entry : cases_) entry.appender.reset();
        events_.reset();
        close_file(file_);
        copy_part_to_staging(path_);
        Handle file = open_file(staging_of(path_), Access::Write);
        change(file.get());
        close_file(file);
    }

    /// PATH.part.next becomes PATH.part, already open for appending when it gets the name: where
    /// HDF5 locks files, a reader cannot come in between.
    void adopt_staging() {
        file_ = open_file(staging_of(path_), Access::SwmrWrite);
        events_ = open_dataset(file_.get(), "events");
        lock_ = WriterLock(staging_of(path_));
        replace_part(path_);
    }

    std::string path_;
    WriterLock lock_;
    Handle file_;
    Handle events_;
    std::vector<Case> cases_;
};

}  // namespace
}  // namespace weightlift::record::h5

namespace weightlift::record {

std::unique_ptr<Recorder> create_results(const std::string& path) {
    return std::make_unique<h5::FileRecorder>(path);
}

}  // namespace weightlift::record
