// The table a rollout sends to each trainer that writes to it: its region's key and, for every
// parameter that trainer writes, what it is. A disagreement is found, and named, before a byte
// moves.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "weightlift/layout/layout.hpp"
#include "weightlift/mpi/communicator.hpp"
#include "weightlift/plan/copy.hpp"
#include "weightlift/transport/transport.hpp"

namespace weightlift::session {

/// One parameter as its holder has it in memory.
struct ParameterEntry {
    std::string name, format;
    DType dtype = DType::BF16;
    layout::Shape shape;
    Bytes offset = 0;          ///< in the region
    std::uint64_t pieces = 0;  ///< digest over the pieces
    friend bool operator==(const ParameterEntry&, const ParameterEntry&) = default;
};

struct KeyTable {
    Bytes region_bytes = 0;
    transport::RegionKey key;
    std::vector<ParameterEntry> parameters;  ///< by layout index
};

[[nodiscard]] ParameterEntry make_entry(const layout::Layout& layout, const plan::ArenaMap& map,
                                        layout::ParameterIndex parameter);

[[nodiscard]] mpi::Bytestring serialize(const KeyTable& table);
/// TransportError where the bytes are not a table.
[[nodiscard]] KeyTable deserialize(std::span<const std::byte> bytes);

/// ConfigError naming the parameter and the field with both values at the first difference.
void check_parameters(std::span<const ParameterEntry> expected,
                      std::span<const ParameterEntry> told, const std::string& holder);

}  // namespace weightlift::session
