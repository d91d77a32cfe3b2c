// The bulk operations on weights in host memory, as free functions over raw memory: what HostArena
// runs, what tests compare with the definitions of base/values.hpp, what benchmarks time.
// Offsets of blocks are from `base`; element order and results do not depend on the instruction
// set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "weightlift/memory/arena.hpp"

namespace weightlift::memory {

enum class Isa : std::uint8_t { Baseline, Avx2 };

/// The widest that this processor has.
[[nodiscard]] Isa best_isa();

void fill(std::byte* base, std::span<const Block> blocks, std::uint64_t version,
          Isa isa = best_isa());
void poison(std::byte* base, std::span<const Block> blocks);
/// sums[i] += fingerprint of block i.
void fingerprint(const std::byte* base, std::span<const Block> blocks,
                 std::span<std::uint64_t> sums, Isa isa = best_isa());
/// The first mismatch in the order of blocks, then rows, then columns, and the count of all.
[[nodiscard]] std::optional<Mismatch> compare(const std::byte* base, std::span<const Block> blocks,
                                              std::uint64_t version, Isa isa = best_isa());
[[nodiscard]] std::optional<Bytes> first_nonzero(const std::byte* base,
                                                 std::span<const ByteBlock> blocks);

}  // namespace weightlift::memory
