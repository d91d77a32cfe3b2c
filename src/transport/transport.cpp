#include "weightlift/transport/transport.hpp"

#include <optional>

#include <fmt/format.h>

namespace weightlift::transport {
namespace {

/// Last byte + 1 of a strided range; nothing where that needs more than 64 bits.
std::optional<Bytes> end_of(Bytes offset, Bytes pitch, std::uint64_t rows, Bytes row_bytes) {
    Bytes end = 0;
    if (__builtin_mul_overflow(rows - 1, pitch, &end) ||
        __builtin_add_overflow(end, row_bytes, &end) || __builtin_add_overflow(end, offset, &end))
        return std::nullopt;
    return end;
}

void check_segments(const BoundPlan& plan) {
    if (!plan.signals.empty() && plan.signals.size() != plan.sources.size())
        throw TransportError(fmt::format("a plan has {} sources, but signals of {}",
                                         plan.sources.size(), plan.signals.size()));
    if (plan.segments.empty()) return;
    std::size_t begin = 0;
    std::uint32_t round = 0;
    for (std::size_t i = 0; i < plan.segments.size(); ++i) {
        const Segment& s = plan.segments[i];
        bool is_right = s.end >= begin && s.end <= plan.copies.size() && s.round >= round &&
                        s.destination < plan.destinations.size();
        for (std::size_t c = begin; is_right && c < s.end; ++c)
            is_right = plan.copies[c].destination == s.destination;
        if (!is_right)
            throw TransportError(
                fmt::format("segment {} of a plan (round {}, copies {} to {}) does "
                            "not follow the one before, or has two destinations",
                            i, s.round, begin, s.end));
        begin = s.end;
        round = s.round;
    }
    if (begin != plan.copies.size())
        throw TransportError(
            fmt::format("segments end at copy {} of {}", begin, plan.copies.size()));
}

}  // namespace

void check_bounds(const BoundPlan& plan, Bytes arena_bytes,
                  const std::function<std::string(int)>& label) {
    check_segments(plan);
    for (std::size_t i = 0; i < plan.copies.size(); ++i) {
        const Copy& copy = plan.copies[i];
        if (copy.destination >= plan.destinations.size())
            throw TransportError(fmt::format("copy {} goes to destination {} of {}", i,
                                             copy.destination, plan.destinations.size()));
        if (copy.rows == 0 || copy.row_bytes == 0) continue;
        const Destination& to = plan.destinations[copy.destination];
        const auto refuse = [&](const char* what, Bytes offset, Bytes pitch, Bytes size) {
            throw TransportError(fmt::format(
                "copy {} to {}: {} rows of {} bytes from offset {}, pitch {}, {} {} bytes", i,
                label(to.rank), copy.rows, copy.row_bytes, offset, pitch, what, size));
        };
        const auto src = end_of(copy.src_offset, copy.src_pitch, copy.rows, copy.row_bytes);
        if (!src || *src > arena_bytes)
            refuse("leave the source's", copy.src_offset, copy.src_pitch, arena_bytes);
        const auto dst = end_of(copy.dst_offset, copy.dst_pitch, copy.rows, copy.row_bytes);
        if (!dst || *dst > to.region_bytes)
            refuse("leave the region's", copy.dst_offset, copy.dst_pitch, to.region_bytes);
        if (copy.rows > 1 && copy.dst_pitch < copy.row_bytes)
            refuse("overlap in the region's", copy.dst_offset, copy.dst_pitch, to.region_bytes);
    }
}

}  // namespace weightlift::transport
