#include "weightlift/session/key_exchange.hpp"

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/hash.hpp"

namespace weightlift::session {

namespace {

class Writer {
public:
    template <class T>
    requires std::is_trivially_copyable_v<T>
    void put(const T& value) {
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        out_.insert(out_.end(), bytes, bytes + sizeof(T));
    }
    void put(const std::string& text) {
        put(static_cast<std::uint32_t>(text.size()));
        const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
        out_.insert(out_.end(), bytes, bytes + text.size());
    }
    [[nodiscard]] mpi::Bytestring take() { return std::move(out_); }

private:
    mpi::Bytestring out_;
};

class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
    template <class T>
    requires std::is_trivially_copyable_v<T>
    void get(T& value) { std::memcpy(&value, next(sizeof(T)).data(), sizeof(T)); }
    void get(std::string& text) {
        std::uint32_t size = 0;
        get(size);
        const auto bytes = next(size);
        text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    [[nodiscard]] std::size_t left() const { return left_.size(); }

private:
    std::span<const std::byte> next(std::size_t size) {
        if (size > left_.size()) throw TransportError("a key table is shorter than it says");
        const auto bytes = left_.first(size);
        left_ = left_.subspan(size);
        return bytes;
    }
    std::span<const std::byte> left_;
};

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
    Writer out;
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
    Reader in(bytes);
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
