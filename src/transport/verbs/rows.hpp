// How short rows travel: as they are, gathered, packed here, or unpacked there.
#pragma once

#include <map>
#include <string>

#include "connections.hpp"
#include "requests.hpp"

namespace weightlift::transport::verbs {

/// Which rows are packed or unpacked. Rows are told apart by the power of two below their length.
struct RowRule {
    struct Choice {
        bool packs = false, unpacks = false;
    };
    std::map<Bytes, Choice> by_size;  ///< measured; empty: `otherwise` for all
    Choice otherwise;
    std::string why;  ///< for the results file

    [[nodiscard]] Choice choose(Bytes row_bytes) const;
    /// A segment is placed when its last byte is written, not when the peer has cut it out.
    void never_unpack();
};

/// What `--rows` says where it is not auto.
[[nodiscard]] RowRule fixed_rule(Rows rows);

/// Bytes per second.
struct RowRates {
    double bulk = 0;      ///< long writes
    double gathered = 0;  ///< rows, several to a request
    double single = 0;    ///< rows, one to a request
    double copied = 0;    ///< rows, by this processor
};
/// Pure. A copy and a long write instead of a slow stream of rows, where they are faster one after
/// the other: on a software device, both are the processor's work.
[[nodiscard]] RowRule::Choice choose_rows(const RowRates& rates);

/// Measures with writes from this rank's scratch into that of `peer`, which may be written to at
/// any time; for each size of row among the strided copies. Nothing else may be under way.
[[nodiscard]] RowRule measure_rows(std::span<const Copy> copies, Device& device,
                                   Connections& connections, const Peer& peer,
                                   const LocalMemory& scratch, Bytes scratch_bytes,
                                   const Context& context);

}  // namespace weightlift::transport::verbs
