// Who is where: hosts, nodes, local ranks, and which MPI rank plays which plan rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightlift/base/bytes.hpp"
#include "weightlift/layout/layout.hpp"
#include "weightlift/mpi/communicator.hpp"
#include "weightlift/plan/planner.hpp"

namespace weightlift::session {

struct Topology {
    std::vector<std::string> hosts;  ///< per MPI rank
    std::vector<int> node;           ///< per MPI rank; numbered by first appearance
    std::vector<int> local_rank;     ///< per MPI rank, within its node
    std::vector<int> node_size;      ///< per node

    /// Collective. Ranks are on one node when host name and boot id agree.
    [[nodiscard]] static Topology discover(const mpi::Communicator& world,
                                           const mpi::Deadline& deadline);
    /// "rank 3 (host n042)".
    [[nodiscard]] std::string label(int rank) const;
};

/// plan rank <-> MPI rank.
struct Roles {
    std::vector<int> mpi_rank;    ///< by plan rank: trainers first, then rollouts
    std::vector<Rank> plan_rank;  ///< by MPI rank
    Rank trainers = 0;

    [[nodiscard]] layout::Side side(int rank) const {
        return plan_rank[static_cast<std::size_t>(rank)] < trainers ? layout::Side::Trainer
                                                                    : layout::Side::Rollout;
    }
};

/// Trainers first.
[[nodiscard]] Roles default_roles(Rank trainers, Rank rollouts);
/// From one role per MPI rank (MPMD): trainers in rank order, then rollouts in rank order.
/// ConfigError where the numbers differ from the layouts'.
[[nodiscard]] Roles roles_from(const std::vector<layout::Side>& side_of_rank, Rank trainers,
                               Rank rollouts);
/// Where plan ranks stand, for the planner: their nodes, and on several nodes their rails (a rank's
/// number on its node, as its NIC's or GPU's).
[[nodiscard]] plan::PlanOptions plan_options(const Topology& topology, const Roles& roles,
                                             Bytes minimum_slice);
/// "trainer:0-7,rollout:8-23": ranks of MPI_COMM_WORLD, ranges inclusive, each rank exactly once.
/// Listed order is plan order. ConfigError naming the range and the rule.
[[nodiscard]] Roles parse_roles(std::string_view text, Rank trainers, Rank rollouts);

/// Offset of each node's steady clock from rank 0's, by ping-pong with the first rank of each node;
/// 0 on rank 0's node. `error_ns` is half the smallest round trip seen, the largest over nodes.
struct ClockOffset {
    std::int64_t offset_ns = 0;  ///< add to the local clock to get rank 0's
    std::uint64_t error_ns = 0;
};
/// Collective.
[[nodiscard]] ClockOffset measure_clock(const mpi::Communicator& world, const Topology& topology,
                                        const mpi::Deadline& deadline);

}  // namespace weightlift::session
