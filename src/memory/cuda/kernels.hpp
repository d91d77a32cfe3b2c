// The bulk operations on GPU memory, as launches on a stream. Nothing here waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "work_list.hpp"

struct CUstream_st;

namespace weightlift::memory::cuda {

/// A WorkList in device memory, and where its blocks' offsets count from.
struct Work {
    const WorkBlock* blocks = nullptr;
    const std::uint64_t* first_item = nullptr;
    std::uint64_t count = 0, items = 0;
    std::byte* base = nullptr;
};

/// In device memory: how many elements were found, and the lowest number of one (kNothing: none).
struct Finding {
    unsigned long long count, first;
};
inline constexpr unsigned long long kNothing = ~0ULL;

/// On the current device.
struct Queue {
    CUstream_st* stream = nullptr;
    int multiprocessors = 0;
};

void launch_fill(const Queue& queue, const Work& work, std::uint64_t version);
void launch_poison(const Queue& queue, const Work& work);
/// Adds to sums[block].
void launch_fingerprint(const Queue& queue, const Work& work, unsigned long long* sums);
void launch_compare(const Queue& queue, const Work& work, std::uint64_t version, Finding* finding);
void launch_first_nonzero(const Queue& queue, const Work& work, Finding* finding);

}  // namespace weightlift::memory::cuda
