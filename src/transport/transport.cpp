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

}  // namespace

void check_bounds(const BoundPlan& plan, Bytes arena_bytes,
                  const std::function<std::string(int)>& label) {
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
