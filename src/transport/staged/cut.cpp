#include "cut.hpp"

#include <algorithm>

namespace weightlift::transport::staged {
namespace {

/// The message to one destination that is being filled.
struct Open {
    std::vector<Part> parts;
    Bytes bytes = 0;
};

class Cutter {
public:
    explicit Cutter(std::span<const Bytes> most)
        : most_(most), open_(most.size()), count_(most.size()), signals_(most.size()) {}

    void add(const plan::Copy& copy) {
        std::uint64_t row = 0;
        Bytes column = 0;
        while (row < copy.rows && copy.row_bytes > 0) {
            const Bytes room = most_[copy.destination] - open_[copy.destination].bytes;
            const std::uint64_t whole =
                column == 0 ? std::min(copy.rows - row, room / copy.row_bytes) : 0;
            if (whole > 0) {
                put(copy, row, 0, whole, copy.row_bytes);
                row += whole;
                continue;
            }
            // A row that would fit into the next message is not cut.
            if (column == 0 && copy.row_bytes <= most_[copy.destination]) {
                close(copy.destination);
                continue;
            }
            const Bytes n = std::min(room, copy.row_bytes - column);
            if (n > 0) put(copy, row, column, 1, n);
            column += n;
            if (column == copy.row_bytes) {
                ++row;
                column = 0;
            } else {
                close(copy.destination);
            }
        }
    }

    void begin_segment() { ++needs_; }
    void end_segment(std::uint32_t destination) {
        ++signals_[destination];
        close(destination);
    }

    [[nodiscard]] Cut finish() {
        for (std::uint32_t d = 0; d < open_.size(); ++d)
            if (open_[d].bytes > 0 || count_[d] == 0) close(d);
        return std::move(cut_);
    }

private:
    void put(const plan::Copy& copy, std::uint64_t row, Bytes column, std::uint64_t rows,
             Bytes bytes) {
        Open& open = open_[copy.destination];
        open.parts.push_back({.src_offset = copy.src_offset + row * copy.src_pitch + column,
                              .src_pitch = copy.src_pitch,
                              .dst_offset = copy.dst_offset + row * copy.dst_pitch + column,
                              .dst_pitch = copy.dst_pitch,
                              .rows = rows,
                              .row_bytes = bytes,
                              .at = open.bytes});
        open.bytes += rows * bytes;
    }

    void close(std::uint32_t destination) {
        Open& open = open_[destination];
        cut_.messages.push_back({.destination = destination,
                                 .index = count_[destination]++,
                                 .first = cut_.parts.size(),
                                 .count = open.parts.size(),
                                 .bytes = open.bytes,
                                 .needs = needs_,
                                 .signals = signals_[destination]});
        cut_.parts.insert(cut_.parts.end(), open.parts.begin(), open.parts.end());
        open = {};
    }

    std::span<const Bytes> most_;
    std::vector<Open> open_;
    std::vector<std::uint32_t> count_;  ///< messages
    std::vector<std::uint32_t> signals_;
    std::uint32_t needs_ = 0;
    Cut cut_;
};

}  // namespace

Cut cut_messages(std::span<const plan::Copy> copies, std::span<const Bytes> most,
                 std::span<const Segment> segments) {
    Cutter cutter(most);
    std::size_t next = 0;
    for (const Segment& segment : segments) {
        cutter.begin_segment();
        for (; next < segment.end; ++next) cutter.add(copies[next]);
        cutter.end_segment(segment.destination);
    }
    for (; next < copies.size(); ++next) cutter.add(copies[next]);
    return cutter.finish();
}

}  // namespace weightlift::transport::staged
