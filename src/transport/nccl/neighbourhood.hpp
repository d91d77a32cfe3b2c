// Which ranks need a communicator together: all that are linked, directly or through others. Each
// rank knows its own links; neighbours tell each other what they know until all know all. No other
// rank takes part, as `connect` after a given-up push demands. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "weightlift/mpi/communicator.hpp"

namespace weightlift::transport::nccl {

class Neighbourhood {
public:
    /// `links`: the ranks that this one is linked to; may name itself, and a rank twice.
    Neighbourhood(int rank, std::vector<int> links);

    [[nodiscard]] mpi::Bytestring told() const;
    /// Adds what a neighbour has told.
    void hear(std::span<const std::byte> told);

    /// Once everything is known: how often neighbours must have told each other until each of them
    /// knows everything. Equal on all members.
    [[nodiscard]] std::optional<int> rounds() const;
    /// Ascending. Once everything is known.
    [[nodiscard]] std::vector<int> members() const;
    /// Of a member, without itself.
    [[nodiscard]] const std::vector<int>& neighbours(int member) const { return links_.at(member); }

private:
    std::map<int, std::vector<int>> links_;
};

}  // namespace weightlift::transport::nccl
