#include "work_list.hpp"

#include <algorithm>

#include "weightlift/base/error.hpp"
#include "weightlift/base/values.hpp"

namespace weightlift::memory::cuda {
namespace {

/// Lanes on a row: the number that leaves the fewest idle, the larger of equals. Not below eight
/// where the row has them: 128 bytes are a full line of memory.
std::uint32_t choose_lane_bits(std::uint64_t vectors) {
    std::uint32_t best = 5;
    std::uint64_t best_idle = round_up(vectors, kWarp) - vectors;
    for (std::uint32_t bits = 5; bits-- > 0;) {
        const std::uint64_t lanes = std::uint64_t{1} << bits;
        if (lanes < 8 && lanes < vectors) break;
        const std::uint64_t idle = round_up(vectors, lanes) - vectors;
        if (idle >= best_idle) continue;
        best = bits;
        best_idle = idle;
    }
    return best;
}

void append(WorkList& list, WorkBlock block) {
    const std::uint64_t vectors = ceil_div(block.row_bytes, kLaneBytes);
    block.lane_bits = choose_lane_bits(vectors);
    block.strips = ceil_div(vectors, std::uint64_t{1} << block.lane_bits);
    block.is_whole = block.offset % kLaneBytes == 0 && block.row_bytes % kLaneBytes == 0 &&
                     (block.rows <= 1 || block.pitch % kLaneBytes == 0);
    block.first_element = list.elements;
    list.blocks.push_back(block);
    const std::uint64_t down = ceil_div(block.rows, block.rows_per_item());
    list.first_item.push_back(list.items() + down * block.strips);
    list.elements += block.rows * (block.row_bytes / element_bytes(block.dtype));
}

WorkList empty_list(std::size_t blocks) {
    WorkList list;
    list.blocks.reserve(blocks);
    list.first_item.reserve(blocks + 1);
    list.first_item.push_back(0);
    return list;
}

}  // namespace

WorkList make_work_list(std::span<const Block> blocks) {
    WorkList list = empty_list(blocks.size());
    for (const Block& block : blocks) {
        WEIGHTLIFT_ENSURES(block.box.columns.end <= kMaxColumns);
        WorkBlock work;
        work.offset = block.offset;
        work.pitch = block.pitch;
        work.rows = block.box.rows.size();
        work.row_bytes = block.box.columns.size() * element_bytes(block.dtype);
        work.first_row = block.box.rows.begin;
        work.first_column = block.box.columns.begin;
        work.tensor = block.tensor;
        work.dtype = block.dtype;
        append(list, work);
    }
    return list;
}

WorkList make_work_list(std::span<const ByteBlock> blocks) {
    WorkList list = empty_list(blocks.size());
    for (const ByteBlock& block : blocks) {
        WorkBlock work;
        work.offset = block.offset;
        work.pitch = block.pitch;
        work.rows = block.rows;
        work.row_bytes = block.row_bytes;
        append(list, work);
    }
    return list;
}

Place place_of(const WorkList& list, std::uint64_t element) {
    WEIGHTLIFT_ENSURES(element < list.elements);
    // The last block that begins at or before the element is not empty.
    const auto after = std::upper_bound(
        list.blocks.begin(), list.blocks.end(), element,
        [](std::uint64_t e, const WorkBlock& block) { return e < block.first_element; });
    const WorkBlock& block = *std::prev(after);
    const std::uint64_t width = element_bytes(block.dtype);
    const std::uint64_t columns = block.row_bytes / width;
    Place place;
    place.block = static_cast<std::size_t>(std::prev(after) - list.blocks.begin());
    place.row = (element - block.first_element) / columns;
    place.column = (element - block.first_element) % columns;
    place.offset = block.offset + place.row * block.pitch + place.column * width;
    return place;
}

}  // namespace weightlift::memory::cuda
