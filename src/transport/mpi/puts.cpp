#include "puts.hpp"

#include <algorithm>

namespace weightlift::transport::mpi_rma {

using weightlift::mpi::check;

RowTypes::~RowTypes() {
    for (auto& [shape, type] : types_) MPI_Type_free(&type);
}

MPI_Datatype RowTypes::get(std::uint64_t rows, Bytes row_bytes, Bytes pitch) {
    MPI_Datatype& type =
        types_.try_emplace({rows, row_bytes, pitch}, MPI_DATATYPE_NULL).first->second;
    if (type == MPI_DATATYPE_NULL) {
        check(MPI_Type_create_hvector(narrow<int>(rows, "rows"), narrow<int>(row_bytes, "row"),
                                      narrow<MPI_Aint>(pitch, "pitch"), MPI_BYTE, &type),
              "MPI_Type_create_hvector");
        check(MPI_Type_commit(&type), "MPI_Type_commit");
    }
    return type;
}

std::vector<Put> make_puts(std::span<const Copy> copies, Bytes max_put, RowTypes& types) {
    std::vector<Put> puts;
    const auto add = [&](const Copy& copy, std::uint64_t row, Bytes byte, std::uint64_t rows,
                         Bytes row_bytes) {
        Put put{.destination = copy.destination,
                .src_offset = copy.src_offset + row * copy.src_pitch + byte,
                .dst_offset = copy.dst_offset + row * copy.dst_pitch + byte,
                .bytes = rows * row_bytes};
        const auto side = [&](Bytes pitch, MPI_Datatype& type, int& count) {
            const bool contiguous = rows == 1 || pitch == row_bytes;
            type = contiguous ? MPI_BYTE : types.get(rows, row_bytes, pitch);
            count = contiguous ? narrow<int>(put.bytes, "bytes of a put") : 1;
        };
        side(copy.src_pitch, put.src_type, put.src_count);
        side(copy.dst_pitch, put.dst_type, put.dst_count);
        puts.push_back(put);
    };
    for (const Copy& copy : copies) {
        if (copy.bytes() == 0) continue;
        const bool contiguous = copy.rows == 1 || (copy.src_pitch == copy.row_bytes &&
                                                   copy.dst_pitch == copy.row_bytes);
        if (contiguous || copy.row_bytes > max_put) {
            const std::uint64_t rows = contiguous ? 1 : copy.rows;
            const Bytes row_bytes = contiguous ? copy.bytes() : copy.row_bytes;
            for (std::uint64_t row = 0; row < rows; ++row)
                for (Bytes byte = 0; byte < row_bytes; byte += max_put)
                    add(copy, row, byte, 1, std::min(max_put, row_bytes - byte));
        } else {
            const std::uint64_t step = max_put / copy.row_bytes;
            for (std::uint64_t row = 0; row < copy.rows; row += step)
                add(copy, row, 0, std::min(step, copy.rows - row), copy.row_bytes);
        }
    }
    return puts;
}

}  // namespace weightlift::transport::mpi_rma
