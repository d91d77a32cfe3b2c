#include "weightlift/session/key_exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/mpi/message.hpp"

namespace weightlift::session {

namespace {

/// What is used as an index or an enumerator later must be one.
void require(bool holds, const char* field) {
    if (!holds) throw TransportError(fmt::format("a key table has an impossible {}", field));
}

}  // namespace

ParameterEntry make_entry(const layout::Layout& layout, const plan::ArenaMap& map,
                          layout::ParameterIndex index) {
    const layout::Parameter& parameter = layout.parameter(index);
    std::uint64_t pieces = 0;
    for (const layout::Piece& piece : parameter.pieces)
        for (const std::uint64_t value :
             {std::uint64_t{piece.tensor}, piece.box.rows.begin, piece.box.rows.end,
              piece.box.columns.begin, piece.box.columns.end, piece.offset, piece.pitch})
            pieces = mix(pieces, value);
    return {parameter.name,  parameter.format,     parameter.dtype,
            parameter.shape, map.offset_of(index), pieces};
}

mpi::Bytestring serialize(const KeyTable& table) {
    mpi::Writer out;
    out.put(table.region_bytes);
    out.put(table.key);
    out.put(static_cast<std::uint64_t>(table.parameters.size()));
    for (const ParameterEntry& entry : table.parameters) {
        out.put(entry.name);
        out.put(entry.format);
        out.put(entry.dtype);
        // Member by member: the bytes between them are anything.
        out.put(entry.shape.sizes);
        out.put(entry.shape.dimensions);
        out.put(entry.offset);
        out.put(entry.pieces);
    }
    return out.take();
}

KeyTable deserialize(std::span<const std::byte> bytes) {
    mpi::Reader in(bytes, "key table");
    KeyTable table;
    std::uint64_t count = 0;
    in.get(table.region_bytes);
    in.get(table.key);
    require(table.key.size <= table.key.blob.size(), "size of a region's key");
    in.get(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        ParameterEntry entry;
        in.get(entry.name);
        in.get(entry.format);
        in.get(entry.dtype);
        in.get(entry.shape.sizes);
        in.get(entry.shape.dimensions);
        in.get(entry.offset);
        in.get(entry.pieces);
        require(element_bytes(entry.dtype) != 0, "dtype");
        require(entry.shape.dimensions >= 0 &&
                    static_cast<std::size_t>(entry.shape.dimensions) <= entry.shape.sizes.size(),
                "number of dimensions");
        table.parameters.push_back(std::move(entry));
    }
    if (in.left() != 0) throw TransportError("a key table is longer than it says");
    return table;
}

void check_parameters(std::span<const ParameterEntry> expected,
                      std::span<const ParameterEntry> told, const std::string& holder) {
    const auto refuse = [&](const ParameterEntry& entry, const char* field, const auto& ours,
                            const auto& theirs) {
        throw ConfigError(fmt::format("parameter {}: {} is {} here but {} on {}", entry.name, field,
                                      ours, theirs, holder));
    };
    for (std::size_t i = 0; i < std::min(expected.size(), told.size()); ++i) {
        const ParameterEntry& a = expected[i];
        const ParameterEntry& b = told[i];
        if (a.name != b.name) refuse(a, "name", a.name, b.name);
        if (a.format != b.format) refuse(a, "format", a.format, b.format);
        if (a.dtype != b.dtype) refuse(a, "dtype", to_string(a.dtype), to_string(b.dtype));
        if (a.shape != b.shape)
            refuse(a, "shape", fmt::format("[{}]", fmt::join(a.shape.values(), ", ")),
                   fmt::format("[{}]", fmt::join(b.shape.values(), ", ")));
        if (a.pieces != b.pieces) refuse(a, "layout digest", a.pieces, b.pieces);
        if (a.offset != b.offset) refuse(a, "offset in the region", a.offset, b.offset);
    }
    if (expected.size() != told.size())
        throw ConfigError(fmt::format("{} parameters are written here but {} are offered by {}",
                                      expected.size(), told.size(), holder));
}

}  // namespace weightlift::session
