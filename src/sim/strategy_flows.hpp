// What the strategies' flows are collected with.
#pragma once

#include <span>
#include <vector>

#include "weightlift/sim/strategies.hpp"

namespace weightlift::sim {

/// Sums of what comes into one rank, by where from.
class FlowSums {
public:
    explicit FlowSums(Rank ranks) : sums_(static_cast<std::size_t>(ranks)) {}
    void add(Rank src, double bytes, double messages);
    /// Appends a flow for each source other than `dst`, by source, and forgets all.
    void move_to(Rank dst, std::vector<Flow>& flows);

private:
    struct Sum {
        double bytes = 0, messages = 0;
    };
    std::vector<Sum> sums_;
    std::vector<Rank> touched_;
};

/// By plan rank: NVLink domains as nodes of a plan in steps; single ranks where there are none.
[[nodiscard]] std::vector<int> nodes_of(const Fabric& fabric);

/// Messages of a transfer that is not merged with its neighbours.
[[nodiscard]] inline double messages_of(const plan::Transfer& t, Rows rows) {
    const bool is_contiguous = t.src.pitch == t.row_bytes && t.dst.pitch == t.row_bytes;
    return is_contiguous || rows == Rows::Packed ? 1 : static_cast<double>(t.rows);
}

}  // namespace weightlift::sim
