#include <algorithm>

#include "weightlift/base/values.hpp"
#include "weightlift/cuda/error.hpp"

#include "kernels.hpp"
#include "packed_values.hpp"
#include "sweep.cuh"

namespace weightlift::memory::cuda {
namespace {

/// For operations to which all rows are alike.
struct NoKey {};

template <DType D>
__device__ inline Words value_words(PackedRowKey key, std::uint32_t product) {
    constexpr std::uint32_t kPerWord = kElements<D> / 4;
    Words words;
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i)
        words.at[i] = packed_word<D>(key, product + i * kPerWord * kColumnStep);
    return words;
}

struct Fill {
    static constexpr bool kReads = false, kWrites = true, kIsOfBytes = false;
    static constexpr int kResident = 3;
    using RowKey = PackedRowKey;
    std::uint64_t version;

    __device__ RowKey row_key(const WorkBlock& block, std::uint64_t row) const {
        return pack_row_key(value_row_key(block.tensor, row, version));
    }
    template <DType D>
    struct Lane {
        std::uint32_t product;
        __device__ Lane(const Fill&, const WorkBlock&, std::uint64_t column, std::uint32_t)
            : product(column_product(static_cast<std::uint32_t>(column))) {}
        __device__ void row(const Fill&, Words& words, RowKey key, std::uint64_t) {
            words = value_words<D>(key, product);
        }
        __device__ void finish(const Fill&, std::uint64_t) {}
    };
};

struct Poison {
    static constexpr bool kReads = false, kWrites = true, kIsOfBytes = true;
    static constexpr int kResident = 4;
    using RowKey = NoKey;

    __device__ RowKey row_key(const WorkBlock&, std::uint64_t) const { return {}; }
    template <DType D>
    struct Lane {
        __device__ Lane(const Poison&, const WorkBlock&, std::uint64_t, std::uint32_t) {}
        __device__ void row(const Poison&, Words& words, RowKey, std::uint64_t) {
            words = {{~0U, ~0U, ~0U, ~0U}};
        }
        __device__ void finish(const Poison&, std::uint64_t) {}
    };
};

/// Sum of (bits + 1) * R * C, by columns: per element one multiply with R and, once per item, one
/// with C, whose keys cost as much as twenty elements.
struct Fingerprint {
    static constexpr bool kReads = true, kWrites = false, kIsOfBytes = false;
    static constexpr int kResident = 2;
    using RowKey = unsigned long long;
    unsigned long long* sums;

    __device__ RowKey row_key(const WorkBlock& block, std::uint64_t row) const {
        return row_fingerprint_key(block.tensor, row);
    }
    template <DType D>
    struct Lane {
        std::uint64_t tensor, column;
        std::uint32_t elements;
        unsigned long long by_column[kElements<D>] = {};
        unsigned long long rows = 0;  ///< sum of the row keys: the ones in (bits + 1)

        __device__ Lane(const Fingerprint&, const WorkBlock& block, std::uint64_t first_column,
                        std::uint32_t width)
            : tensor(block.tensor),
              column(first_column),
              elements(width / static_cast<std::uint32_t>(element_bytes(D))) {}
        __device__ void row(const Fingerprint&, const Words& words, RowKey key, std::uint64_t) {
            rows += key;
#pragma unroll
            for (std::uint32_t i = 0; i < kElements<D>; ++i)
                by_column[i] += element<D>(words, i) * key;
        }
        __device__ void finish(const Fingerprint& op, std::uint64_t block) {
            unsigned long long sum = 0;
#pragma unroll
            for (std::uint32_t i = 0; i < kElements<D>; ++i)
                if (i < elements)
                    sum += (by_column[i] + rows) * column_fingerprint_key(tensor, column + i);
            for (unsigned other = kWarp / 2; other > 0; other /= 2)
                sum += __shfl_xor_sync(kAllLanes, sum, other);
            if (threadIdx.x % kWarp == 0) atomicAdd(op.sums + block, sum);
        }
    };
};

/// What one lane has found; added to the finding of all once per item, and seldom at all.
struct Found {
    unsigned long long count = 0, first = kNothing;

    __device__ void add(unsigned long long number) {
        ++count;
        first = number < first ? number : first;
    }
    __device__ void report(Finding* finding) const {
        if (count == 0) return;
        atomicAdd(&finding->count, count);
        atomicMin(&finding->first, first);
    }
};

struct Compare {
    static constexpr bool kReads = true, kWrites = false, kIsOfBytes = false;
    static constexpr int kResident = 3;
    using RowKey = PackedRowKey;
    std::uint64_t version;
    Finding* finding;

    __device__ RowKey row_key(const WorkBlock& block, std::uint64_t row) const {
        return pack_row_key(value_row_key(block.tensor, row, version));
    }
    template <DType D>
    struct Lane {
        std::uint32_t product, elements;
        Found found;

        __device__ Lane(const Compare&, const WorkBlock&, std::uint64_t column, std::uint32_t width)
            : product(column_product(static_cast<std::uint32_t>(column))),
              elements(width / static_cast<std::uint32_t>(element_bytes(D))) {}
        __device__ void row(const Compare&, const Words& words, RowKey key, std::uint64_t number) {
            const Words expected = value_words<D>(key, product);
            const std::uint32_t differs =
                (words.at[0] ^ expected.at[0]) | (words.at[1] ^ expected.at[1]) |
                (words.at[2] ^ expected.at[2]) | (words.at[3] ^ expected.at[3]);
            if (differs == 0) return;
#pragma unroll
            for (std::uint32_t i = 0; i < kElements<D>; ++i)
                // Beyond the row's end the words are zero and differ from what is expected.
                if (i < elements && element<D>(words, i) != element<D>(expected, i))
                    found.add(number + i);
        }
        __device__ void finish(const Compare& op, std::uint64_t) { found.report(op.finding); }
    };
};

struct FirstNonzero {
    static constexpr bool kReads = true, kWrites = false, kIsOfBytes = true;
    static constexpr int kResident = 3;
    using RowKey = NoKey;
    Finding* finding;

    __device__ RowKey row_key(const WorkBlock&, std::uint64_t) const { return {}; }
    template <DType D>
    struct Lane {
        Found found;
        __device__ Lane(const FirstNonzero&, const WorkBlock&, std::uint64_t, std::uint32_t) {}
        __device__ void row(const FirstNonzero&, const Words& words, RowKey, std::uint64_t number) {
            if ((words.at[0] | words.at[1] | words.at[2] | words.at[3]) == 0) return;
#pragma unroll
            for (std::uint32_t i = 0; i < kElements<D>; ++i)
                if (element<D>(words, i) != 0) found.add(number + i);
        }
        __device__ void finish(const FirstNonzero& op, std::uint64_t) { found.report(op.finding); }
    };
};

/// As many blocks as the GPU has room for at once; each goes on to further items.
template <class Operation>
void launch(const Queue& queue, const Work& work, const Operation& op) {
    if (work.items == 0) return;
    int per_multiprocessor = 0;
    weightlift::cuda::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                &per_multiprocessor, sweep<Operation>, kThreads, 0),
                            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    const auto room = static_cast<std::uint64_t>(queue.multiprocessors) *
                      static_cast<std::uint64_t>(per_multiprocessor);
    const std::uint64_t wanted = ceil_div(work.items, kThreads / kWarp);
    const auto grid = static_cast<unsigned>(std::max<std::uint64_t>(1, std::min(room, wanted)));
    sweep<Operation><<<grid, kThreads, 0, queue.stream>>>(op, work);
    weightlift::cuda::check(cudaGetLastError(), "launch of a memory kernel");
}

}  // namespace

void launch_fill(const Queue& queue, const Work& work, std::uint64_t version) {
    launch(queue, work, Fill{version});
}
void launch_poison(const Queue& queue, const Work& work) { launch(queue, work, Poison{}); }
void launch_fingerprint(const Queue& queue, const Work& work, unsigned long long* sums) {
    launch(queue, work, Fingerprint{sums});
}
void launch_compare(const Queue& queue, const Work& work, std::uint64_t version, Finding* finding) {
    launch(queue, work, Compare{version, finding});
}
void launch_first_nonzero(const Queue& queue, const Work& work, Finding* finding) {
    launch(queue, work, FirstNonzero{finding});
}

}  // namespace weightlift::memory::cuda
