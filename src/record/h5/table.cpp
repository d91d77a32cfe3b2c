#include "table.hpp"

#include <fmt/format.h>

#include "weightlift/base/error.hpp"

namespace weightlift::record::h5 {
namespace {

enum class Side { File, Memory };

/// The compound type of a row: the same offsets on both sides, little endian in the file.
Handle row_type(const RowFormat& format, Side side) {
    const bool in_file = side == Side::File;
    Handle row = compound_type(format.bytes);
    for (const Cell& cell : format.cells) {
        const auto add = [&](hid_t type) { add_member(row.get(), cell.name, cell.offset, type); };
        switch (cell.kind) {
            case Cell::Kind::Text: add(text_type(cell.width).get()); break;
            case Cell::Kind::Int32: add(in_file ? H5T_STD_I32LE : H5T_NATIVE_INT32); break;
            case Cell::Kind::UInt64: add(in_file ? H5T_STD_U64LE : H5T_NATIVE_UINT64); break;
            case Cell::Kind::Double: add(in_file ? H5T_IEEE_F64LE : H5T_NATIVE_DOUBLE); break;
            case Cell::Kind::Bool: add(in_file ? H5T_STD_U8LE : H5T_NATIVE_UINT8); break;
        }
    }
    return row;
}

std::size_t width_of(Cell::Kind kind, std::size_t text_width) {
    switch (kind) {
        case Cell::Kind::Text: return text_width;
        case Cell::Kind::Int32: return 4;
        case Cell::Kind::UInt64:
        case Cell::Kind::Double: return 8;
        case Cell::Kind::Bool: return 1;
    }
    return 0;
}

/// "bytes: bytes, floor_ns: ns": the members that have a unit.
std::string units_of(const RowFormat& format) {
    std::string units;
    for (const Cell& cell : format.cells)
        if (std::string_view(cell.unit) != "1")
            units += fmt::format("{}{}: {}", units.empty() ? "" : ", ", cell.name, cell.unit);
    return units.empty() ? "1" : units;
}

}  // namespace

void RowFormat::add(const char* name, const char* unit, Cell::Kind kind, std::size_t text_width) {
    const std::size_t width = width_of(kind, text_width);
    cells.push_back({.name = name, .unit = unit, .kind = kind, .width = width, .offset = bytes});
    bytes += width;
}

Handle create_table(hid_t parent, const char* name, const RowFormat& format, hsize_t rows,
                    hsize_t chunk, const std::byte* fill) {
    const Handle file_type = row_type(format, Side::File);
    const Handle type = row_type(format, Side::Memory);
    Handle table = create_dataset(parent, name, file_type.get(), type.get(), {rows}, {chunk}, fill);
    write_text(table.get(), "units", units_of(format));
    return table;
}

void write_packed(hid_t parent, const char* name, const RowFormat& format,
                  std::span<const std::byte> rows) {
    constexpr std::size_t kChunkBytes = 1 << 20;  // HDF5's default chunk cache
    const hsize_t count = rows.size() / format.bytes;
    const hsize_t chunk =
        std::clamp<hsize_t>(kChunkBytes / format.bytes, 1, std::max<hsize_t>(count, 1));
    if (has_link(parent, name)) delete_link(parent, name);
    const Handle table = create_table(parent, name, format, count, chunk);
    write_rows(table.get(), row_type(format, Side::Memory).get(), 0, count, rows.data());
}

void append_packed(hid_t table, const RowFormat& format, std::span<const std::byte> row) {
    const hsize_t rows = extent_of(table).at(0);
    extend(table, {rows + 1});
    write_rows(table, row_type(format, Side::Memory).get(), rows, 1, row.data());
    flush(table);
}

void adopt_text_widths(hid_t table, RowFormat& format) {
    const Handle type = type_of(table);
    if (H5Tget_class(type.get()) != H5T_COMPOUND) malformed(table, "is not a table");
    RowFormat adopted;
    for (const Cell& cell : format.cells) {
        const int index = H5Tget_member_index(type.get(), cell.name);
        if (index < 0) malformed(table, fmt::format("has no column {}", cell.name));
        const Handle member{check_id(H5Tget_member_type(type.get(), static_cast<unsigned>(index)),
                                     "H5Tget_member_type", table, cell.name),
                            H5Tclose};
        const bool is_text = H5Tget_class(member.get()) == H5T_STRING;
        if (is_text != (cell.kind == Cell::Kind::Text) || H5Tis_variable_str(member.get()) > 0)
            malformed(table, fmt::format("has a column {} of another type", cell.name));
        adopted.add(cell.name, cell.unit, cell.kind, is_text ? H5Tget_size(member.get()) : 0);
    }
    format = std::move(adopted);
    expect_units(table, units_of(format));
}

std::vector<std::byte> read_packed(hid_t table, const RowFormat& format) {
    const std::vector<hsize_t> extent = extent_of(table);
    if (extent.size() != 1) malformed(table, "is not a table: it has not one axis");
    expect_within_file(table, extent[0], format.bytes);
    std::vector<std::byte> rows(extent[0] * format.bytes);
    read_rows(table, row_type(format, Side::Memory).get(), 0, extent[0], rows.data());
    return rows;
}

}  // namespace weightlift::record::h5
