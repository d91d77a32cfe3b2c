#include "weightlift/plan/copy.hpp"

#include <algorithm>

namespace weightlift::plan {

using layout::ParameterIndex;

ArenaMap::ArenaMap(const layout::Layout& layout, Rank rank)
    : parameters_(layout.parameters_of(rank)) {
    offsets_.reserve(parameters_.size());
    for (const ParameterIndex p : parameters_) {
        offsets_.push_back(bytes_);
        bytes_ = round_up(checked_add(bytes_, layout.parameter(p).bytes(), "bytes of a rank"),
                          kArenaAlignment);
    }
}

Bytes ArenaMap::offset_of(ParameterIndex parameter) const {
    const auto at = std::lower_bound(parameters_.begin(), parameters_.end(), parameter);
    WEIGHTLIFT_ENSURES(at != parameters_.end() && *at == parameter);
    return offsets_[static_cast<std::size_t>(at - parameters_.begin())];
}

namespace {

/// Appends `next` to `last` where the two are one copy.
bool merge_into(Copy& last, const Copy& next) {
    if (last.rows == 1 && next.rows == 1) {
        if (last.src_offset + last.row_bytes != next.src_offset ||
            last.dst_offset + last.row_bytes != next.dst_offset)
            return false;
        last.row_bytes += next.row_bytes;
        last.src_pitch = last.dst_pitch = last.row_bytes;
        return true;
    }
    if (last.row_bytes != next.row_bytes || last.rows == 1 || next.rows == 1 ||
        last.src_pitch != next.src_pitch || last.dst_pitch != next.dst_pitch ||
        last.src_offset + last.rows * last.src_pitch != next.src_offset ||
        last.dst_offset + last.rows * last.dst_pitch != next.dst_offset)
        return false;
    last.rows += next.rows;
    return true;
}

}  // namespace

void append_copy(std::vector<Copy>& copies, Copy copy) {
    if (copy.rows == 1 || (copy.src_pitch == copy.row_bytes && copy.dst_pitch == copy.row_bytes)) {
        copy.row_bytes *= copy.rows;
        copy.rows = 1;
        copy.src_pitch = copy.dst_pitch = copy.row_bytes;
    }
    if (copies.empty() || !merge_into(copies.back(), copy)) copies.push_back(copy);
}

std::vector<Copy> merge_transfers(std::span<const Transfer> transfers, std::uint32_t destination,
                                  const ArenaMap& src, const ArenaMap& dst) {
    std::vector<Copy> copies;
    for (const Transfer& t : transfers)
        append_copy(copies, {destination, src.offset_of(t.src.parameter) + t.src.offset,
                             t.src.pitch, dst.offset_of(t.dst.parameter) + t.dst.offset,
                             t.dst.pitch, t.rows, t.row_bytes});
    return copies;
}

std::vector<Copy> rotate_copies(std::span<const std::vector<Copy>> by_destination,
                                std::uint64_t first, Bytes chunk_bytes) {
    WEIGHTLIFT_ENSURES(chunk_bytes > 0);
    const std::size_t n = by_destination.size();
    if (n == 1) return by_destination.front();
    struct Cursor {
        std::size_t copy = 0;
        std::uint64_t done = 0;  ///< bytes of a contiguous copy, rows of a strided one
    };
    std::vector<Cursor> cursors(n);
    std::vector<Copy> order;
    std::size_t open = 0;
    for (const auto& copies : by_destination) open += copies.empty() ? 0 : 1;
    for (std::size_t turn = first; open > 0; ++turn) {
        const auto& copies = by_destination[turn % n];
        Cursor& cursor = cursors[turn % n];
        if (cursor.copy == copies.size()) continue;
        Bytes left = chunk_bytes;
        while (cursor.copy < copies.size() && left > 0) {
            Copy part = copies[cursor.copy];
            if (part.rows == 1) {
                const Bytes take = std::min(left, part.row_bytes - cursor.done);
                part.src_offset += cursor.done;
                part.dst_offset += cursor.done;
                part.row_bytes = part.src_pitch = part.dst_pitch = take;
                cursor.done += take;
            } else {
                // A row that does not fit the rest of a chunk waits for the next.
                if (part.row_bytes > left && left < chunk_bytes) break;
                const std::uint64_t take = std::min(
                    std::max<std::uint64_t>(1, left / part.row_bytes), part.rows - cursor.done);
                part.src_offset += cursor.done * part.src_pitch;
                part.dst_offset += cursor.done * part.dst_pitch;
                part.rows = take;
                cursor.done += take;
            }
            left -= std::min(left, part.bytes());
            order.push_back(part);
            const Copy& whole = copies[cursor.copy];
            if (cursor.done == (whole.rows == 1 ? whole.row_bytes : whole.rows)) {
                ++cursor.copy;
                cursor.done = 0;
            }
        }
        if (cursor.copy == copies.size()) --open;
    }
    return order;
}

}  // namespace weightlift::plan
