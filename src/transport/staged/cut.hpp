// A plan cut into messages for staging buffers: each is filled by a few strided reads of the source
// and emptied by as many strided writes at the destination. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/transport/bound_plan.hpp"

namespace weightlift::transport::staged {

/// Rows that lie in a message one behind the other, from byte `at` of its payload.
struct Part {
    Bytes src_offset = 0, src_pitch = 0;
    Bytes dst_offset = 0, dst_pitch = 0;
    std::uint64_t rows = 0;
    Bytes row_bytes = 0;
    Bytes at = 0;
    [[nodiscard]] Bytes bytes() const { return rows * row_bytes; }
};

/// parts[first, first + count) of one destination.
struct Message {
    std::uint32_t destination = 0;
    std::uint32_t index = 0;  ///< among the messages to that destination
    std::uint64_t first = 0, count = 0;
    Bytes bytes = 0;
    std::uint32_t needs = 0;    ///< segments of the plan that must be allowed before it leaves
    std::uint32_t signals = 0;  ///< segments to that destination that are there once it is placed
};

struct Cut {
    std::vector<Part> parts;
    std::vector<Message> messages;  ///< in the order of the plan; at least one per destination
};

/// `most[d]`: payload of one message to destination d, at least 1. No message is of two segments,
/// and every segment has one.
[[nodiscard]] Cut cut_messages(std::span<const plan::Copy> copies, std::span<const Bytes> most,
                               std::span<const Segment> segments = {});

}  // namespace weightlift::transport::staged
