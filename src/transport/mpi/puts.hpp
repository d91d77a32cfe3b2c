// Copies as MPI calls: cut to the message limit, strided rows as committed datatypes.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::mpi_rma {

/// Datatypes of strided rows, one for each shape.
class RowTypes {
public:
    RowTypes() = default;
    ~RowTypes();
    RowTypes(const RowTypes&) = delete;
    RowTypes& operator=(const RowTypes&) = delete;
    [[nodiscard]] MPI_Datatype get(std::uint64_t rows, Bytes row_bytes, Bytes pitch);

private:
    std::map<std::tuple<std::uint64_t, Bytes, Bytes>, MPI_Datatype> types_;
};

struct Put {
    std::uint32_t destination = 0;
    Bytes src_offset = 0, dst_offset = 0;
    Bytes bytes = 0;
    MPI_Datatype src_type = MPI_BYTE, dst_type = MPI_BYTE;
    int src_count = 0, dst_count = 0;
};

/// In the order of the copies, each of at most max_put bytes (1 <= max_put <= 1 GiB).
[[nodiscard]] std::vector<Put> make_puts(std::span<const Copy> copies, Bytes max_put,
                                         RowTypes& types);

}  // namespace weightlift::transport::mpi_rma
