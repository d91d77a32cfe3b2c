#include "weightlift/memory/host_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "weightlift/base/error.hpp"
#include "weightlift/base/values.hpp"

#include "row_kernels.hpp"

namespace weightlift::memory {
namespace {

/// Calls body(row pointer, row index) for each row of the block.
template <class Pointer, class F>
void for_each_row(Pointer base, const Block& block, F body) {
    Pointer row = base + block.offset;
    for (std::uint64_t r = block.box.rows.begin; r < block.box.rows.end; ++r, row += block.pitch)
        body(row, r);
}

std::uint32_t first_column(const Block& block) {
    WEIGHTLIFT_ENSURES(block.box.columns.end <= kMaxColumns);
    return static_cast<std::uint32_t>(block.box.columns.begin);
}

/// Column keys of one (tensor, column range), kept while the following blocks use the same: the
/// pieces of a fused parameter, and slices of rows.
class ColumnKeys {
public:
    void set(std::uint64_t tensor, Interval columns) {
        if (valid_ && tensor == tensor_ && columns == columns_) return;
        valid_ = true;
        tensor_ = tensor;
        columns_ = columns;
        keys_.resize(columns.size());
        sum_ = 0;
        for (std::size_t i = 0; i < keys_.size(); ++i)
            sum_ += keys_[i] = column_fingerprint_key(tensor, columns.begin + i);
    }
    [[nodiscard]] const std::uint64_t* data() const { return keys_.data(); }
    [[nodiscard]] std::uint64_t sum() const { return sum_; }

private:
    bool valid_ = false;
    std::uint64_t tensor_ = 0;
    Interval columns_;
    std::vector<std::uint64_t> keys_;
    std::uint64_t sum_ = 0;
};

}  // namespace

void fill(std::byte* base, std::span<const Block> blocks, std::uint64_t version, Isa isa) {
    for (const Block& block : blocks) {
        const RowKernels& kernels = row_kernels(block.dtype, isa);
        const std::uint32_t column = first_column(block);
        for_each_row(base, block, [&](std::byte* row, std::uint64_t r) {
            kernels.fill(row, value_row_key(block.tensor, r, version), column,
                         block.box.columns.size());
        });
    }
}

void poison(std::byte* base, std::span<const Block> blocks) {
    for (const Block& block : blocks) {
        const Bytes row_bytes = block.box.columns.size() * element_bytes(block.dtype);
        for_each_row(base, block,
                     [&](std::byte* row, std::uint64_t) { std::memset(row, 0xff, row_bytes); });
    }
}

void fingerprint(const std::byte* base, std::span<const Block> blocks,
                 std::span<std::uint64_t> sums, Isa isa) {
    WEIGHTLIFT_ENSURES(sums.size() == blocks.size());
    // 128 KiB of keys: they stay in the second-level cache while the rows go by.
    constexpr std::uint64_t kColumns = std::uint64_t{1} << 14;
    ColumnKeys keys;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        const Block& block = blocks[b];
        const RowKernels& kernels = row_kernels(block.dtype, isa);
        const Interval columns = block.box.columns;
        for (std::uint64_t at = columns.begin; at < columns.end; at += kColumns) {
            const Interval part{at, std::min(at + kColumns, columns.end)};
            const Bytes skip = (at - columns.begin) * element_bytes(block.dtype);
            keys.set(block.tensor, part);
            for_each_row(base + skip, block, [&](const std::byte* row, std::uint64_t r) {
                // Sum of (bits + 1) * C, times R.
                sums[b] += (kernels.dot(row, keys.data(), part.size()) + keys.sum()) *
                           row_fingerprint_key(block.tensor, r);
            });
        }
    }
}

std::optional<Mismatch> compare(const std::byte* base, std::span<const Block> blocks,
                                std::uint64_t version, Isa isa) {
    std::optional<Mismatch> found;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        const Block& block = blocks[b];
        const RowKernels& kernels = row_kernels(block.dtype, isa);
        const std::uint32_t column = first_column(block);
        const std::size_t n = block.box.columns.size();
        for_each_row(base, block, [&](const std::byte* row, std::uint64_t r) {
            const std::uint64_t key = value_row_key(block.tensor, r, version);
            if (!kernels.differs(row, key, column, n)) return;
            for (std::size_t i = 0; i < n; ++i) {
                const std::uint32_t expected =
                    value_bits(block.dtype, key, column + static_cast<std::uint32_t>(i));
                const std::uint32_t actual = element_bits(block.dtype, row, i);
                if (expected == actual) continue;
                if (!found)
                    found = Mismatch{b, r, block.box.columns.begin + i, expected, actual, 0};
                ++found->count;
            }
        });
    }
    return found;
}

std::optional<Bytes> first_nonzero(const std::byte* base, std::span<const ByteBlock> blocks) {
    for (const ByteBlock& block : blocks) {
        for (std::uint64_t r = 0; r < block.rows; ++r) {
            const Bytes offset = block.offset + r * block.pitch;
            const std::byte* row = base + offset;
            std::byte any{0};
            for (Bytes i = 0; i < block.row_bytes; ++i) any |= row[i];
            if (any == std::byte{0}) continue;
            const auto* const at = std::find_if(row, row + block.row_bytes,
                                                [](std::byte v) { return v != std::byte{0}; });
            return offset + static_cast<Bytes>(at - row);
        }
    }
    return std::nullopt;
}

}  // namespace weightlift::memory
