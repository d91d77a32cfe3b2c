// From transfers to what is executed: arena offsets, merged and chunked copies, execution order.
// All are pure functions of the pair's list, so that both ends of a two-sided backend agree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/base/bytes.hpp"
#include "weightlift/layout/layout.hpp"
#include "weightlift/plan/transfer.hpp"

namespace weightlift::plan {

/// Parameters start at multiples of this in an arena: wide enough for any vector load or DMA burst,
/// small enough that neighbours usually touch and can merge.
inline constexpr Bytes kArenaAlignment = 256;

/// Where each parameter of a rank lies in its arena: in layout order, one after the other.
class ArenaMap {
public:
    ArenaMap(const layout::Layout& layout, Rank rank);

    /// Indices into the layout, ascending.
    [[nodiscard]] std::span<const layout::ParameterIndex> parameters() const { return parameters_; }
    /// Offset of parameters()[i].
    [[nodiscard]] Bytes offset_at(std::size_t i) const { return offsets_[i]; }
    /// Offset of a parameter that this rank holds; anything else is our bug.
    [[nodiscard]] Bytes offset_of(layout::ParameterIndex parameter) const;
    /// Bytes of the whole arena.
    [[nodiscard]] Bytes bytes() const { return bytes_; }

private:
    std::vector<layout::ParameterIndex> parameters_;
    std::vector<Bytes> offsets_;
    Bytes bytes_ = 0;
};

/// One 2-D copy from a source's arena into a destination's region; offsets from their starts.
/// A contiguous copy has rows == 1.
struct Copy {
    std::uint32_t destination = 0;  ///< index into the source's list of destinations
    Bytes src_offset = 0, src_pitch = 0;
    Bytes dst_offset = 0, dst_pitch = 0;
    std::uint64_t rows = 0;
    Bytes row_bytes = 0;
    [[nodiscard]] Bytes bytes() const { return rows * row_bytes; }
    friend bool operator==(const Copy&, const Copy&) = default;
};

/// Calls visit(span) for each run of transfers between one source and one destination. Lists by
/// destination (Planner::sent_by) or by source have one run for each pair.
template <class Visit>
void for_each_pair(std::span<const Transfer> transfers, Visit&& visit) {
    for (std::size_t begin = 0; begin < transfers.size();) {
        std::size_t end = begin;
        while (end < transfers.size() && transfers[end].src.rank == transfers[begin].src.rank &&
               transfers[end].dst.rank == transfers[begin].dst.rank)
            ++end;
        visit(transfers.subspan(begin, end - begin));
        begin = end;
    }
}

/// The copies of one pair's transfers (all with the same src and dst rank, in plan order), with
/// neighbours merged where both ends are contiguous or continue the same rows.
[[nodiscard]] std::vector<Copy> merge_transfers(std::span<const Transfer> transfers,
                                                std::uint32_t destination, const ArenaMap& src,
                                                const ArenaMap& dst);

/// Appends a copy to what is executed after each other, joined with the last one where the two are
/// one copy.
void append_copy(std::vector<Copy>& copies, Copy copy);

/// One source's copies in the order in which they are executed: destinations in turn, from `first`
/// on, one chunk each per round. A chunk is at least one row and else at most `chunk_bytes`; copies
/// longer than that are cut. With a single destination nothing is cut.
[[nodiscard]] std::vector<Copy> rotate_copies(std::span<const std::vector<Copy>> by_destination,
                                              std::uint64_t first, Bytes chunk_bytes);

/// Default chunk of the rotated order.
inline constexpr Bytes kRotationChunk = 8 * MiB;

}  // namespace weightlift::plan
