// BoundPlan: one rank's part of a plan with addresses and keys, as a transport takes it. Values
// only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weightlift/base/bytes.hpp"
#include "weightlift/plan/copy.hpp"

namespace weightlift::transport {

/// What a writer needs of a region: opaque to all but the backend that made it. Trivially copyable.
struct RegionKey {
    std::uint32_t size = 0;
    std::array<std::byte, 252> blob{};
    friend bool operator==(const RegionKey&, const RegionKey&) = default;
};

/// Copy::destination indexes BoundPlan::destinations; offsets are from the regions' starts.
using plan::Copy;

struct Destination {
    int rank = 0;
    Bytes region_bytes = 0;
    RegionKey key;
    friend bool operator==(const Destination&, const Destination&) = default;
};

/// Copies to one destination that are held back until Push::allow() and signalled when placed. One
/// without copies carries its signal alone ("my staging is free again").
struct Segment {
    std::size_t end = 0;            ///< of its copies; they begin where the one before ends
    std::uint32_t destination = 0;  ///< also of its copies
    std::uint32_t round = 0;        ///< ascending; two-sided backends meet by it
    friend bool operator==(const Segment&, const Segment&) = default;
};

/// This rank's part of a plan with addresses: what it writes, in execution order, and who writes to
/// it.
struct BoundPlan {
    std::vector<Destination> destinations;
    std::vector<Copy> copies;
    std::vector<Segment> segments;  ///< empty: all copies may be executed at once, in one go
    std::vector<int> sources;       ///< each notifies exactly once per push, after its last segment
    std::vector<std::uint32_t> signals;  ///< by source: its segments to this rank; empty: none
    /// What at least so many destinations get alike in a round may go by one operation, and what a
    /// rank sends itself by a plain copy; 0: nothing.
    std::uint32_t broadcast_from = 0;
    Bytes window = 0;  ///< most bytes outstanding per destination; 0: no limit
};

/// Throws TransportError naming the destination where a copy leaves the source arena or its region,
/// or its rows overlap at the destination, or where segments do not cut the copies: ends and rounds
/// ascending, all of a segment's copies to its destination, the last end at the last copy.
void check_bounds(const BoundPlan& plan, Bytes arena_bytes,
                  const std::function<std::string(int)>& label);

}  // namespace weightlift::transport
