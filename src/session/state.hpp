// What a Session keeps. Private to this folder.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "weightlift/cuda/device.hpp"
#include "weightlift/plan/copy.hpp"
#include "weightlift/plan/planner.hpp"
#include "weightlift/plan/steps.hpp"
#include "weightlift/session/fingerprints.hpp"
#include "weightlift/session/key_exchange.hpp"
#include "weightlift/session/session.hpp"
#include "weightlift/session/weight_store.hpp"
#include "weightlift/transport/registry.hpp"
#include "weightlift/transport/transport.hpp"

#include "held_segments.hpp"

namespace weightlift::session {

/// One backend in use, with the pairs that it serves. Members in dependency order.
struct Lane {
    std::string name;
    std::unique_ptr<transport::Transport> transport;
    transport::RegionKey key;  ///< of this rank's region
    transport::LinkTable links;
    transport::BoundPlan plan;
    Bytes planned_bytes = 0;  ///< sent from here per push
    std::unique_ptr<transport::Push> push;
};

struct Session::State {
    const Agreement& agreement;
    mpi::Watchdog& watchdog;
    SessionInputs inputs;
    PushOptions options;

    int rank;  ///< MPI rank
    Rank plan_rank;
    bool is_trainer;
    WeightStore store;
    std::optional<cuda::Device> gpu;  ///< where memory is cuda, once chosen
    record::SetupTimes setup_ns{};

    std::uint64_t digest = 0;                            ///< of the whole plan
    std::uint64_t sent_digest = 0, received_digest = 0;  ///< of this rank's part
    std::uint64_t transfers = 0;                         ///< received here
    std::uint64_t copies = 0;                            ///< sent from here
    std::vector<plan::Transfer> sent, received;          ///< of `direct`; dropped once bound
    plan::StepPart steps;                                ///< of the other strategies
    std::optional<HeldSegments> held;                    ///< of these
    Bytes staging = 0;                                   ///< of this rank
    Bytes least_gpu_bytes = 0;                           ///< of this rank's arena
    Bytes payload = 0;                                   ///< of this rank, where it is a rollout
    std::map<int, Bytes> bytes_to, bytes_from;           ///< by MPI rank
    std::vector<std::string> usable;  ///< transports for `auto`, the preferred first
    std::set<std::pair<std::string, int>> unreached;  ///< transport, peer: tried in vain
    std::set<std::string> leaves_gaps;                ///< transports with such pairs on any rank
    std::string passed_over;  ///< why one is not among them, where this rank is the cause
    std::vector<Lane> lanes;
    bool has_dropped = false;  ///< --inject drop took copies out of this rank's plan

    std::unique_ptr<FingerprintTable> table;
    std::vector<std::uint64_t> trainer_sums;  ///< of this rank's blocks, before the push
    std::uint64_t epoch = 0;
    std::optional<std::uint64_t> committed;

    State(const Agreement& a, mpi::Watchdog& w, const SessionInputs& i, PushOptions o);

    [[nodiscard]] const mpi::Communicator& world() const { return agreement.world(); }
    [[nodiscard]] int mpi_rank(Rank plan) const {
        return inputs.roles.mpi_rank[static_cast<std::size_t>(plan)];
    }
    [[nodiscard]] int node_of(int mpi) const {
        return inputs.topology.node[static_cast<std::size_t>(mpi)];
    }
    [[nodiscard]] Rank plan_of(int mpi) const {
        return inputs.roles.plan_rank[static_cast<std::size_t>(mpi)];
    }
    /// Which backend serves this pair. Pure: both ends agree.
    [[nodiscard]] std::string_view transport_for(int src, int dst) const;

    /// BoundPlan::broadcast_from.
    [[nodiscard]] std::uint32_t broadcast_from() const;
    [[nodiscard]] bool has_steps() const { return options.strategy != plan::Strategy::Direct; }
    [[nodiscard]] Bytes arena_bytes() const {
        return checked_add(store.bytes(), staging, "bytes of a rank");
    }

    void make_plan();
    void plan_steps(const plan::Planner& planner, const std::vector<int>& node);
    void check_digest(const mpi::Deadline& deadline);
    /// Whether a transport moves memory of the kind in use.
    [[nodiscard]] bool moves_memory(const transport::Capabilities& c) const {
        return options.memory == memory::MemoryKind::Cuda ? c.cuda_memory : c.host_memory;
    }
    void choose_gpu();
    void agree_on_gpu_bytes(const mpi::Deadline& deadline);
    void check_one_rank_per_gpu(const mpi::Deadline& deadline) const;
    void check_memory(const mpi::Deadline& deadline) const;
    void check_gpu_memory(const mpi::Deadline& deadline) const;
    [[nodiscard]] memory::ArenaOptions arena_options() const;
    [[nodiscard]] transport::Context transport_context() const;
    void find_usable(const mpi::Deadline& deadline);
    void try_reach(const mpi::Deadline& deadline);
    [[nodiscard]] std::vector<std::string> opened_transports() const;
    void open_lanes();
    void exchange_and_bind(const mpi::Deadline& deadline);
    void bind_transfers(const std::map<int, KeyTable>& told);
    void bind_steps(const std::map<int, KeyTable>& told);
    /// That serves this rank's pairs with a peer, in both directions.
    [[nodiscard]] Lane& lane_with(int peer);
    void hold_segments();
    void connect();
    [[nodiscard]] std::string waited_for() const;
    /// Starts this push on all lanes and waits for it; `posted` is called between.
    template <class Posted>
    void run_lanes(std::uint64_t version, const mpi::Deadline& deadline, bool is_crowded,
                   Posted posted);
};

}  // namespace weightlift::session
