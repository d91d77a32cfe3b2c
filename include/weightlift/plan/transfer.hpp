// Transfer: one 2-D strided copy between two ranks of a plan; no addresses, absolute src and dst.
#pragma once

#include <cstdint>

#include "weightlift/base/box.hpp"
#include "weightlift/base/bytes.hpp"
#include "weightlift/layout/layout.hpp"

namespace weightlift::plan {

enum class Buffer : std::uint8_t { Weights, Staging };

struct Endpoint {
    Rank rank = 0;  ///< plan rank: trainers 0..T-1, then rollouts
    Buffer buffer = Buffer::Weights;
    layout::ParameterIndex parameter = 0;  ///< in the layout of the rank's side
    Bytes offset = 0;                      ///< from the start of the parameter
    Bytes pitch = 0;                       ///< from row to row
    friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

struct Transfer {
    layout::TensorId tensor = 0;
    Box box;  ///< of the logical tensor, in elements
    Endpoint src, dst;
    std::uint64_t rows = 0;
    Bytes row_bytes = 0;

    [[nodiscard]] Bytes bytes() const { return rows * row_bytes; }
    friend bool operator==(const Transfer&, const Transfer&) = default;
};

}  // namespace weightlift::plan
