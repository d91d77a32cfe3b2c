// From which trainer a box of a tensor is fetched by one of them that wants it whole.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "weightlift/layout/layout.hpp"

namespace weightlift::plan::steps {

struct Held {
    Rank holder = 0;
    layout::ParameterIndex parameter = 0;
    const layout::Piece* piece = nullptr;
    Box box;
};

/// Where `rank` itself holds all of a box, if it does.
[[nodiscard]] std::optional<Held> find_at(const layout::Layout& trainer, layout::TensorId tensor,
                                          const Box& box, Rank rank);

/// A box cut where its holders change, in order; of each part one holder: `wanted_by` itself, else
/// the first of the ranks [begin, end), else the first of all. Without parts that nobody holds.
[[nodiscard]] std::vector<Held> find_holders(const layout::Layout& trainer, layout::TensorId tensor,
                                             const Box& box, Rank wanted_by, Rank begin, Rank end);

}  // namespace weightlift::plan::steps
