// The samples of one case: one dataset per quantity in /samples/<n>, one row per iteration. Every
// row is a chunk of its own, written once. A row counts when `valid`, written last, has it.
#pragma once

#include <array>
#include <vector>

#include "weightlift/record/run_record.hpp"

#include "h5_call.hpp"

namespace weightlift::record::h5 {

inline constexpr std::size_t kSeries = 9;

/// Creates the datasets of a case, empty but for setup_ns, and their dimension scales.
void create_samples(hid_t group, std::size_t ranks, const std::vector<SetupTimes>& setup_ns);

class SampleAppender {
public:
    SampleAppender(hid_t group, std::size_t ranks, hsize_t rows);
    /// In the file when it returns. The sample has `ranks` entries per rank_* list.
    void append(const Sample& sample);

private:
    std::array<Handle, kSeries> datasets_;
    std::size_t ranks_;
    hsize_t rows_;
};

/// Samples in order. Of a partial file those that were finished.
[[nodiscard]] std::vector<Sample> read_samples(hid_t group, bool partial);
[[nodiscard]] std::vector<SetupTimes> read_setup(hid_t group);

}  // namespace weightlift::record::h5
