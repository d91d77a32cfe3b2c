// Results schema 1: the columns of its tables. A column that is added, renamed or dropped raises
// the number: readers expect exactly these.
#pragma once

#include "weightlift/record/run_record.hpp"

#include "table.hpp"

namespace weightlift::record::h5 {

inline constexpr int kSchema = 1;

using NameValue = std::pair<std::string, std::string>;
inline constexpr Column<NameValue> kProvenanceColumns[] = {
    {"name", "1", &NameValue::first},
    {"value", "1", &NameValue::second},
};

inline constexpr Column<RankInfo> kRankColumns[] = {
    {"role", "1", &RankInfo::role},
    {"rank", "1", &RankInfo::rank},
    {"plan_rank", "1", &RankInfo::plan_rank},
    {"engine", "1", &RankInfo::engine},
    {"engine_rank", "1", &RankInfo::engine_rank},
    {"host", "1", &RankInfo::host},
    {"node", "1", &RankInfo::node},
    {"local_rank", "1", &RankInfo::local_rank},
    {"gpu_uuid", "1", &RankInfo::gpu_uuid},
    {"gpu_pci", "1", &RankInfo::gpu_pci},
    {"nic", "1", &RankInfo::nic},
    {"gid_index", "1", &RankInfo::gid_index},
    {"mtu", "bytes", &RankInfo::mtu},
    {"registration", "1", &RankInfo::registration},
    {"weight_bytes", "bytes", &RankInfo::weight_bytes},
};

inline constexpr Column<CaseInfo> kCaseColumns[] = {
    {"key", "1", &CaseInfo::key},
    {"model", "1", &CaseInfo::model},
    {"trainer", "1", &CaseInfo::trainer},
    {"rollout", "1", &CaseInfo::rollout},
    {"strategy", "1", &CaseInfo::strategy},
    {"transport", "1", &CaseInfo::transport},
    {"verify", "1", &CaseInfo::verify},
    {"memory", "1", &CaseInfo::memory},
    {"options", "1", &CaseInfo::options},
    {"parameters", "1", &CaseInfo::parameters},
    {"bytes", "bytes", &CaseInfo::bytes},
    {"unique_bytes", "bytes", &CaseInfo::unique_bytes},
    {"wire_bytes", "bytes", &CaseInfo::wire_bytes},
    {"port_bytes", "bytes", &CaseInfo::port_bytes},
    {"transfers", "1", &CaseInfo::transfers},
    {"copies", "1", &CaseInfo::copies},
    {"plan_digest", "1", &CaseInfo::plan_digest},
    {"floor_ns", "ns", &CaseInfo::floor_ns},
    {"line_rate", "bytes/s", &CaseInfo::line_rate},
};

inline constexpr Column<FingerprintRow> kFingerprintColumns[] = {
    {"tensor", "1", &FingerprintRow::tensor},   {"trainer", "1", &FingerprintRow::trainer},
    {"rollout", "1", &FingerprintRow::rollout}, {"engine", "1", &FingerprintRow::engine},
    {"equal", "1", &FingerprintRow::equal},
};

inline constexpr Column<TrafficRow> kTrafficColumns[] = {
    {"src", "1", &TrafficRow::src},
    {"dst", "1", &TrafficRow::dst},
    {"transport", "1", &TrafficRow::transport},
    {"bytes", "bytes", &TrafficRow::bytes},
};

inline constexpr Column<NicRow> kNicColumns[] = {
    {"rank", "1", &NicRow::rank},
    {"nic", "1", &NicRow::nic},
    {"completed", "bytes", &NicRow::completed},
    {"counted", "bytes", &NicRow::counted},
};

inline constexpr Column<Event> kEventColumns[] = {
    {"time_utc", "1", &Event::time_utc},
    {"kind", "1", &Event::kind},
    {"text", "1", &Event::text},
    {"rank", "1", &Event::rank},
};
/// Events are appended while no object can be created: their widths are fixed.
inline constexpr std::size_t kEventWidths[] = {32, 32, 512, 0};
/// `rank` of an event whose row was added but not written yet.
inline constexpr std::int32_t kNoEvent = std::numeric_limits<std::int32_t>::min();

struct SummaryRow : Summary {
    std::string key;
};
inline constexpr Column<SummaryRow> kSummaryColumns[] = {
    {"key", "1", &SummaryRow::key},
    {"iterations", "1", &SummaryRow::iterations},
    {"wrong", "1", &SummaryRow::wrong},
    {"first_ns", "ns", &SummaryRow::first_ns},
    {"min_ns", "ns", &SummaryRow::min_ns},
    {"p50_ns", "ns", &SummaryRow::p50_ns},
    {"p99_ns", "ns", &SummaryRow::p99_ns},
    {"max_ns", "ns", &SummaryRow::max_ns},
    {"algbw", "bytes/s", &SummaryRow::algbw},
    {"portbw", "bytes/s", &SummaryRow::portbw},
    {"slowest_rank", "1", &SummaryRow::slowest_rank},
    {"slowest_count", "1", &SummaryRow::slowest_count},
    {"slowest_ratio", "1", &SummaryRow::slowest_ratio},
};

}  // namespace weightlift::record::h5
