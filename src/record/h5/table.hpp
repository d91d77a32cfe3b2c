// Tables: one-dimensional compound datasets, one row per struct. A list of columns (schema.hpp)
// describes a row type once, for writing and for reading. Strings have the length of the longest.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "h5_call.hpp"

namespace weightlift::record::h5 {

/// One member of a row struct, its name in the file and its unit ("1": none).
template <class Row>
struct Column {
    const char* name;
    const char* unit;
    /// In the order of Cell::Kind.
    std::variant<std::string Row::*, std::int32_t Row::*, std::uint64_t Row::*, double Row::*,
                 bool Row::*>
        member;
};

/// A column's place in the packed row.
struct Cell {
    enum class Kind : std::uint8_t { Text, Int32, UInt64, Double, Bool };
    const char* name = "";
    const char* unit = "1";
    Kind kind = Kind::Text;
    std::size_t width = 0;
    std::size_t offset = 0;
};

struct RowFormat {
    std::vector<Cell> cells;
    std::size_t bytes = 0;

    void add(const char* name, const char* unit, Cell::Kind kind, std::size_t text_width);
};

/// Creates /name with `rows` rows (of zeros, or of the packed row `fill`); chunk in rows.
[[nodiscard]] Handle create_table(hid_t parent, const char* name, const RowFormat& format,
                                  hsize_t rows, hsize_t chunk, const std::byte* fill = nullptr);
/// Replaces what a former call wrote.
void write_packed(hid_t parent, const char* name, const RowFormat& format,
                  std::span<const std::byte> rows);
void append_packed(hid_t table, const RowFormat& format, std::span<const std::byte> row);
/// Fills in the text widths that the file has; ResultsError where a column is missing or no text,
/// or where the units are others.
void adopt_text_widths(hid_t table, RowFormat& format);
/// All rows. ResultsError where the table claims to be larger than its file.
[[nodiscard]] std::vector<std::byte> read_packed(hid_t table, const RowFormat& format);

template <class Row>
RowFormat row_format(std::span<const Column<Row>> columns, std::span<const std::size_t> widths) {
    RowFormat format;
    for (std::size_t i = 0; i < columns.size(); ++i)
        format.add(columns[i].name, columns[i].unit,
                   static_cast<Cell::Kind>(columns[i].member.index()), widths[i]);
    return format;
}

template <class Row>
RowFormat row_format_for(std::span<const Column<Row>> columns, std::span<const Row> rows) {
    std::vector<std::size_t> widths(columns.size(), 1);
    for (std::size_t i = 0; i < columns.size(); ++i)
        if (const auto* text = std::get_if<std::string Row::*>(&columns[i].member))
            for (const Row& row : rows)
                widths[i] = std::max(widths[i], std::min((row.**text).size(), kTextLimit));
    return row_format(columns, std::span<const std::size_t>(widths));
}

template <class Row>
void pack(std::span<const Column<Row>> columns, const RowFormat& format, const Row& row,
          std::byte* to) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const Cell& cell = format.cells[i];
        const auto put = [&]<class Value>(Value Row::*member) {
            if constexpr (std::is_same_v<Value, std::string>) {
                const std::string text = bounded_text(row.*member, cell.width);
                std::memcpy(to + cell.offset, text.data(), text.size());
            } else {
                std::memcpy(to + cell.offset, &(row.*member), sizeof(Value));
            }
        };
        std::visit(put, columns[i].member);
    }
}

template <class Row>
void write_table(hid_t parent, const char* name, std::span<const Column<Row>> columns,
                 std::span<const Row> rows) {
    const RowFormat format = row_format_for(columns, rows);
    std::vector<std::byte> packed(rows.size() * format.bytes);
    for (std::size_t i = 0; i < rows.size(); ++i)
        pack(columns, format, rows[i], packed.data() + i * format.bytes);
    write_packed(parent, name, format, packed);
}

template <class Row>
std::vector<Row> read_table(hid_t parent, const char* name, std::span<const Column<Row>> columns) {
    const Handle table = open_dataset(parent, name);
    const std::vector<std::size_t> widths(columns.size(), 1);
    RowFormat format = row_format(columns, std::span<const std::size_t>(widths));
    adopt_text_widths(table.get(), format);
    const std::vector<std::byte> packed = read_packed(table.get(), format);
    std::vector<Row> rows(packed.size() / format.bytes);
    for (std::size_t r = 0; r < rows.size(); ++r)
        for (std::size_t i = 0; i < columns.size(); ++i) {
            const std::byte* from = packed.data() + r * format.bytes + format.cells[i].offset;
            const auto take = [&]<class Value>(Value Row::*member) {
                if constexpr (std::is_same_v<Value, std::string>) {
                    const auto* text = reinterpret_cast<const char*>(from);
                    (rows[r].*member).assign(text, strnlen(text, format.cells[i].width));
                } else if constexpr (std::is_same_v<Value, bool>) {
                    rows[r].*member = *from != std::byte{0};
                } else {
                    std::memcpy(&(rows[r].*member), from, sizeof(Value));
                }
            };
            std::visit(take, columns[i].member);
        }
    return rows;
}

}  // namespace weightlift::record::h5
