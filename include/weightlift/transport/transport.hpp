// Transport: how planned bytes travel. One interface, one folder per backend, chosen at run time.
//
// Life: capabilities -> register_memory -> connect -> prepare -> { Push::start -> Push::test …,
// with segments Push::allow in between } many times -> destruction in reverse order. The same calls
// in the same order on both sides, so that two-sided backends fit. Ranks here are ranks of
// Context::world (the session maps plan ranks).
//
// What the caller guarantees
// - connect is called by all ranks of the world, with tables that mirror each other; keys were
//   exchanged before, and a key is handed only to ranks that write to it.
// - Every copy of a BoundPlan lies inside its regions (prepare checks, once) and no destination
//   byte is written twice in one push, or only by segments of which one is allowed after the bytes
//   of the other were used up.
// - What keeps segments back (BoundPlan::segments) leads to no cycle: rounds ascend in every rank's
//   list, and a segment waits for ones of smaller rounds only.
// - One Push of a transport is under way at a time. start(version, epoch) is called on both sides
//   of a pair with equal arguments; epochs increase by one from 1 over all pushes of a transport.
// - Between test() == true on all ranks and the next start, and between prepare on all ranks and
//   the first start, there is an agreement of all ranks.
// - Between start and test() == true nobody else touches source or destination memory.
// - A Push is destroyed before its transport, that before its arena, all before MPI_Finalize.
// What the backend guarantees
// - No collective over the world after connect. No allocation and no per-copy virtual call in a
//   push.
// - test() never blocks for long: it moves a bounded number of bytes (where an MPI call may block
//   on a peer, under the watchdog), and returns whether this rank's part is done: on a source, its
//   memory may be reused and every byte is placed; on a destination, every source of its plan has
//   notified *this* epoch, and every byte of the push is visible to this process.
// - Copies are executed in the plan's order, those of a segment once it is allowed. When they are
//   placed and visible, and not before, its destination's count of this source grows by one, in the
//   order of the list. A rank may be its own source and destination. A destination that a source
//   lists is notified also where no byte goes to it.
// - Arrival is counted per source; a duplicate or foreign epoch throws TransportError naming the
//   peer. A failed or incomplete copy never leads to test() == true.
// - After a throw the Push is dead: only destruction is allowed, which never blocks on a peer.
// - Back-pressure is inside test(), not an error. Capabilities are constant and declared, never
//   discovered by an error.
// - A key of another backend, process or region is refused by prepare, naming the peer.
// Threading: one thread per process.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightlift/base/bytes.hpp"
#include "weightlift/memory/arena.hpp"
#include "weightlift/memory/cuda_arena.hpp"
#include "weightlift/mpi/communicator.hpp"
#include "weightlift/transport/attachment.hpp"
#include "weightlift/transport/bound_plan.hpp"
#include "weightlift/transport/capabilities.hpp"
#include "weightlift/transport/options.hpp"

namespace weightlift::transport {

/// Which side of the push a byte count is about, for scratch_bytes.
struct Link {
    int rank = 0;  ///< the peer
    Bytes bytes = 0;
};

/// Who talks with whom. Mirrored: a is in b.destinations exactly where b is in a.sources.
struct LinkTable {
    std::vector<Link> destinations;  ///< ranks this rank writes to, ascending
    std::vector<Link> sources;       ///< ranks that write to this rank, ascending
    /// Groups for backends that need a window: for each engine this rank has to do with (trainers:
    /// all, rollouts: their own), all trainers and the engine's ranks, ascending; same order
    /// everywhere.
    std::vector<std::vector<int>> engine_groups;
};

class Push {
public:
    virtual ~Push() = default;
    Push(const Push&) = delete;
    Push& operator=(const Push&) = delete;

    virtual void start(std::uint64_t version, std::uint64_t epoch) = 0;
    [[nodiscard]] virtual bool test() = 0;
    /// For plans with segments, between start() and the end: segments before `end` may be executed
    /// from now on; start() allows none. Local, ascending, never blocks. The backend need not begin
    /// before the next test().
    virtual void allow(std::size_t end) = 0;
    /// Leading segments, in order, whose bytes are placed and whose source may be overwritten.
    [[nodiscard]] virtual std::size_t placed() const = 0;
    /// Segments of BoundPlan::sources[source] that have been placed and are visible here.
    [[nodiscard]] virtual std::uint32_t signals_from(std::size_t source) const = 0;
    /// Peers still waited for, for the message of a deadline.
    [[nodiscard]] virtual std::vector<int> pending() const = 0;
    /// Bytes that completions have confirmed since construction (not bytes asked for).
    [[nodiscard]] virtual Bytes completed_bytes() const = 0;
    /// Time that the last push took to make arrived bytes visible to the device that owns them;
    /// absent where nothing is needed.
    [[nodiscard]] virtual std::optional<std::chrono::nanoseconds> visibility_time() const {
        return std::nullopt;
    }

protected:
    Push() = default;
};

struct Context {
    const mpi::Communicator* world = nullptr;
    mpi::Watchdog* watchdog = nullptr;
    std::chrono::nanoseconds timeout{};
    std::function<std::string(int)> label;  ///< "rank 3 (host n042)" of a world rank
    /// Most bytes moved by one test() and in one message; 0: the backend's own choice. Tests lower
    /// them to meet every border with little memory.
    Bytes slice = 0, max_message = 0;
    int local_rank = 0, local_size = 1;  ///< among the ranks of this node
    bool shares_staging = true;          ///< `staged`, within a host; tests turn it off
    bool is_written_to = true;           ///< whether any rank writes to this one
    VerbsOptions verbs{};
    NcclOptions nccl{};
    memory::CudaOptions cuda{};  ///< of this rank's memory, where it is a GPU's
};

class Transport {
public:
    virtual ~Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    [[nodiscard]] virtual std::string_view name() const = 0;
    [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
    /// Memory beyond the weights that a push of these links needs on this rank.
    [[nodiscard]] virtual Bytes scratch_bytes(const LinkTable& links) const = 0;
    /// The same in memory of the GPU that holds the weights.
    [[nodiscard]] virtual Bytes device_scratch_bytes(const LinkTable& /*links*/) const { return 0; }
    /// Local. The arena must outlive the transport. Called once per arena, before connect.
    [[nodiscard]] virtual RegionKey register_memory(memory::Arena& arena) = 0;
    /// Collective over the world (in effect over the groups of `links`). After a Push that was
    /// destroyed before its end it may be called again, by the linked ranks only: what that push
    /// had under way can no longer reach this rank's memory.
    virtual void connect(const LinkTable& links) = 0;
    /// Local to linked pairs. Throws TransportError where a copy leaves its region.
    [[nodiscard]] virtual std::unique_ptr<Push> prepare(BoundPlan plan) = 0;
    [[nodiscard]] virtual Attachment attachment() const { return {}; }

protected:
    Transport() = default;
};

}  // namespace weightlift::transport
