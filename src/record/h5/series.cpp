#include "series.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "weightlift/base/bytes.hpp"

#include "dimension_scale.hpp"

namespace weightlift::record::h5 {
namespace {

enum class Extent { Iteration, Rank, Phase };  ///< the last axis
enum class Width { Byte, Word };

struct Series {
    const char* name;
    const char* unit;
    Extent extent;
    Width width;
};

enum Index : std::size_t {
    kVersion,
    kTime,
    kClosed,
    kClockError,
    kReleaseSkew,
    kWarmup,
    kRankTime,
    kPhase,
    kValid
};
constexpr std::array<Series, kSeries> kAll = {{
    {"version", "1", Extent::Iteration, Width::Word},  // also the scale of the iteration axis
    {"time_ns", "ns", Extent::Iteration, Width::Word},
    {"closed_ns", "ns", Extent::Iteration, Width::Word},
    {"clock_error_ns", "ns", Extent::Iteration, Width::Word},
    {"release_skew_ns", "ns", Extent::Iteration, Width::Word},
    {"warmup", "1 = warm-up, 0 = measured", Extent::Iteration, Width::Byte},
    {"rank_time_ns", "ns", Extent::Rank, Width::Word},
    {"phase_ns", "ns", Extent::Phase, Width::Word},
    {"valid", "0 = unchecked, 1 = valid, 2 = wrong", Extent::Iteration, Width::Byte},
}};

constexpr std::uint8_t kNotFinished = 255;  ///< fill value of the byte-wide ones
static_assert(sizeof(PhaseTimes) == kPhases * sizeof(std::uint64_t));
static_assert(sizeof(SetupTimes) == kSetupPhases * sizeof(std::uint64_t));

hid_t memory_type(Width width) {
    return width == Width::Byte ? H5T_NATIVE_UINT8 : H5T_NATIVE_UINT64;
}

std::vector<hsize_t> row_extent(Extent extent, std::size_t ranks, hsize_t rows) {
    switch (extent) {
        case Extent::Iteration: return {rows};
        case Extent::Rank: return {rows, ranks};
        case Extent::Phase: return {rows, ranks, kPhases};
    }
    return {};
}

Handle create_series(hid_t group, const Series& series, std::size_t ranks) {
    const hid_t file_type = series.width == Width::Byte ? H5T_STD_U8LE : H5T_STD_U64LE;
    const void* fill = series.width == Width::Byte ? static_cast<const void*>(&kNotFinished)
                                                   : static_cast<const void*>(&kNotMeasured);
    Handle dataset = create_dataset(group, series.name, file_type, memory_type(series.width),
                                    row_extent(series.extent, ranks, 0),
                                    row_extent(series.extent, ranks, 1), fill);
    write_text(dataset.get(), "units", series.unit);
    return dataset;
}

/// A scale of names: one fixed-length string per position.
template <class Enum>
Handle create_name_scale(hid_t group, const char* name, std::size_t count) {
    constexpr std::size_t kLength = 16;
    std::string packed(count * kLength, '\0');
    for (std::size_t i = 0; i < count; ++i)
        to_string(static_cast<Enum>(i)).copy(packed.data() + i * kLength, kLength);
    const Handle type = text_type(kLength);
    Handle scale = create_dataset(group, name, type.get(), type.get(), {count}, {count}, nullptr);
    write_text(scale.get(), "units", "1");
    write_rows(scale.get(), type.get(), 0, count, packed.data());
    make_scale(scale.get(), name);
    return scale;
}

Handle create_rank_scale(hid_t group, std::size_t ranks) {
    std::vector<std::int32_t> numbers(ranks);
    std::iota(numbers.begin(), numbers.end(), 0);
    Handle scale =
        create_dataset(group, "rank", H5T_STD_I32LE, H5T_NATIVE_INT32, {ranks}, {ranks}, nullptr);
    write_text(scale.get(), "units", "1");
    write_rows(scale.get(), H5T_NATIVE_INT32, 0, ranks, numbers.data());
    make_scale(scale.get(), "rank");
    return scale;
}

Handle create_setup(hid_t group, std::size_t ranks, const std::vector<SetupTimes>& setup_ns) {
    Handle dataset =
        create_dataset(group, "setup_ns", H5T_STD_U64LE, H5T_NATIVE_UINT64,
                       {setup_ns.size(), kSetupPhases}, {ranks, kSetupPhases}, &kNotMeasured);
    write_text(dataset.get(), "units", "ns");
    write_rows(dataset.get(), H5T_NATIVE_UINT64, 0, setup_ns.size(), setup_ns.data());
    return dataset;
}

/// Rows [0, rows) of a dataset whose other axes must be as expected, flattened.
template <class Value>
std::vector<Value> read_flat(hid_t group, const Series& series, std::size_t ranks, hsize_t rows) {
    const Handle dataset = open_dataset(group, series.name);
    expect_units(dataset.get(), series.unit);
    std::vector<hsize_t> extent = extent_of(dataset.get());
    if (extent.empty() || extent[0] < rows)
        malformed(dataset.get(), fmt::format("has fewer than the {} rows of valid", rows));
    extent[0] = rows;
    if (extent != row_extent(series.extent, ranks, rows))
        malformed(dataset.get(), "does not have the axes of its case");
    const hsize_t in_row =
        std::accumulate(extent.begin() + 1, extent.end(), hsize_t{1}, std::multiplies<>());
    expect_within_file(dataset.get(), rows, in_row * sizeof(Value));
    std::vector<Value> values(rows * in_row);
    read_rows(dataset.get(), memory_type(series.width), 0, rows, values.data());
    return values;
}

std::vector<std::uint8_t> read_validity(hid_t group, bool partial) {
    const Handle dataset = open_dataset(group, kAll[kValid].name);
    const std::vector<hsize_t> extent = extent_of(dataset.get());
    if (extent.size() != 1) malformed(dataset.get(), "does not have one axis");
    expect_within_file(dataset.get(), extent[0], 1);
    std::vector<std::uint8_t> validity(extent[0]);
    read_rows(dataset.get(), H5T_NATIVE_UINT8, 0, extent[0], validity.data());
    const auto end = std::find(validity.begin(), validity.end(), kNotFinished);
    if (end != validity.end() && !partial)
        malformed(dataset.get(), "has an unfinished iteration in a finished file");
    validity.erase(end, validity.end());
    for (const std::uint8_t value : validity)
        if (value > static_cast<std::uint8_t>(Validity::Wrong))
            malformed(dataset.get(), fmt::format("has the value {}", value));
    return validity;
}

std::size_t ranks_of(hid_t group) {
    const Handle dataset = open_dataset(group, kAll[kRankTime].name);
    const std::vector<hsize_t> extent = extent_of(dataset.get());
    if (extent.size() != 2 || !std::in_range<std::int32_t>(extent[1]))
        malformed(dataset.get(), "does not have the axes iteration and rank");
    return extent[1];
}

}  // namespace

void create_samples(hid_t group, std::size_t ranks, const std::vector<SetupTimes>& setup_ns) {
    std::array<Handle, kSeries> datasets;
    for (std::size_t i = 0; i < kSeries; ++i) datasets[i] = create_series(group, kAll[i], ranks);
    make_scale(datasets[kVersion].get(), "iteration");
    const Handle rank = create_rank_scale(group, ranks);
    const Handle phase = create_name_scale<Phase>(group, "phase", kPhases);
    const Handle setup_phase = create_name_scale<SetupPhase>(group, "setup_phase", kSetupPhases);
    const Handle setup = create_setup(group, ranks, setup_ns);

    const std::array<hid_t, 3> scales = {datasets[kVersion].get(), rank.get(), phase.get()};
    std::vector<Axes> axes{{setup.get(), {rank.get(), setup_phase.get()}}};
    for (std::size_t i = 0; i < kSeries; ++i) {
        if (i == kVersion) continue;  // a scale has no scale
        const std::size_t count = row_extent(kAll[i].extent, ranks, 0).size();
        axes.push_back({datasets[i].get(), {scales.begin(), scales.begin() + count}});
    }
    attach_scales(axes);
}

SampleAppender::SampleAppender(hid_t group, std::size_t ranks, hsize_t rows)
    : ranks_(ranks), rows_(rows) {
    for (std::size_t i = 0; i < kSeries; ++i) datasets_[i] = open_dataset(group, kAll[i].name);
}

void SampleAppender::append(const Sample& sample) {
    const std::uint8_t warmup = sample.warmup ? 1 : 0;
    const auto valid = static_cast<std::uint8_t>(sample.validity);
    std::array<const void*, kSeries> rows{};
    rows[kVersion] = &sample.version;
    rows[kTime] = &sample.time_ns;
    rows[kClosed] = &sample.closed_ns;
    rows[kClockError] = &sample.clock_error_ns;
    rows[kReleaseSkew] = &sample.release_skew_ns;
    rows[kWarmup] = &warmup;
    rows[kRankTime] = sample.rank_time_ns.data();
    rows[kPhase] = sample.phase_ns.data();
    rows[kValid] = &valid;
    // kValid is last: the others are in the file before it is touched.
    for (std::size_t i = 0; i < kSeries; ++i) {
        const hid_t dataset = datasets_[i].get();
        extend(dataset, row_extent(kAll[i].extent, ranks_, rows_ + 1));
        write_rows(dataset, memory_type(kAll[i].width), rows_, 1, rows[i]);
        flush(dataset);
    }
    ++rows_;
}

std::vector<Sample> read_samples(hid_t group, bool partial) {
    // Before the others are opened, so that of a file still being written they have these rows.
    const std::vector<std::uint8_t> validity = read_validity(group, partial);
    const hsize_t rows = validity.size();
    const std::size_t ranks = ranks_of(group);
    const auto words = [&](Index i) {
        return read_flat<std::uint64_t>(group, kAll[i], ranks, rows);
    };
    const auto version = words(kVersion), time = words(kTime), closed = words(kClosed),
               clock_error = words(kClockError), release_skew = words(kReleaseSkew),
               rank_time = words(kRankTime), phase = words(kPhase);
    const auto warmup = read_flat<std::uint8_t>(group, kAll[kWarmup], ranks, rows);

    std::vector<Sample> samples(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        Sample& sample = samples[i];
        sample.version = version[i];
        sample.warmup = warmup[i] != 0;
        sample.time_ns = time[i];
        sample.closed_ns = closed[i];
        sample.clock_error_ns = clock_error[i];
        sample.release_skew_ns = release_skew[i];
        sample.validity = static_cast<Validity>(validity[i]);
        sample.rank_time_ns.assign(rank_time.data() + i * ranks,
                                   rank_time.data() + (i + 1) * ranks);
        sample.phase_ns.resize(ranks);
        for (std::size_t rank = 0; rank < ranks; ++rank)
            std::copy_n(phase.data() + (i * ranks + rank) * kPhases, kPhases,
                        sample.phase_ns[rank].data());
    }
    return samples;
}

std::vector<SetupTimes> read_setup(hid_t group) {
    const Handle dataset = open_dataset(group, "setup_ns");
    const std::vector<hsize_t> extent = extent_of(dataset.get());
    if (extent.size() != 2 || extent[1] != kSetupPhases)
        malformed(dataset.get(), "does not have the axes rank and setup phase");
    expect_within_file(dataset.get(), extent[0], sizeof(SetupTimes));
    std::vector<SetupTimes> setup(extent[0]);
    read_rows(dataset.get(), H5T_NATIVE_UINT64, 0, extent[0], setup.data());
    return setup;
}

}  // namespace weightlift::record::h5
