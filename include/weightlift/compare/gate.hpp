// What must be equal for two launches to be compared at all, and what may differ but is named.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weightlift/compare/launch.hpp"

namespace weightlift::compare {

struct Difference {
    std::string field, base, next;
};

/// Fields of the gate that differ: case, plan digest, bytes, transport, verification, and the
/// hardware: memory, processor, GPUs, NICs, number of ranks and how they lie on nodes. (Units are
/// part of the schema: a file with others is not read at all.)
[[nodiscard]] std::vector<Difference> gate(const Launch& base, const Launch& next);

/// What else is not the same on both sides: versions, hosts, devices, MTU, options, environment.
/// Each side is the set of values that its launches have.
[[nodiscard]] std::vector<Difference> provenance_differences(std::span<const Launch* const> base,
                                                             std::span<const Launch* const> next);

}  // namespace weightlift::compare
