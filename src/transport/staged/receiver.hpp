// The destination's half of a push: what fills its slots, in whatever way, goes into its arena.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cut.hpp"
#include "mover.hpp"
#include "protocol.hpp"
#include "staging.hpp"

namespace weightlift::transport::staged {

/// What a source will send.
struct Incoming {
    int rank = 0;
    bool is_shared = false;  ///< it maps its ring: no message travels
    std::vector<Part> parts;
    std::vector<Message> messages;
};

class Receiver {
public:
    /// `staging`: a ring of slots of `slot` bytes, with their headers, for each source.
    Receiver(const Context& context, const Mover& mover, std::vector<Incoming> incoming,
             std::unique_ptr<Staging> staging, Bytes slot);

    void start(std::uint64_t epoch);
    /// Moves about `budget` bytes at most.
    void receive(Bytes budget);
    /// What this rank has moved within its own memory is there. Returns what is there by now.
    [[nodiscard]] Answer arrive_here(const Message& message);
    [[nodiscard]] bool is_done() const { return left_ == 0; }
    [[nodiscard]] std::uint32_t signals_from(std::size_t source) const {
        return sources_[source].signals;
    }
    void list_pending(std::vector<int>& ranks) const;
    /// Of a push that is given up: returns whether MPI may still read or write this.
    [[nodiscard]] bool let_go();

private:
    struct Slot {
        std::byte* at = nullptr;
        MPI_Request request = MPI_REQUEST_NULL;
        Ticket ticket;
    };
    /// Counts are of messages in the push under way. Message n is in slot n % kInSlots, which is
    /// free again once n is placed.
    struct Source {
        Incoming plan;
        Ring ring;
        std::vector<Slot> slots{};
        std::size_t posted = 0;  ///< to MPI
        std::size_t filled = 0, taken = 0, placed = 0;
        std::uint32_t signals = 0;  ///< segments
        Answer said{};              ///< what was sent back last
        MPI_Request request = MPI_REQUEST_NULL;
        [[nodiscard]] bool is_done() const {
            return placed == plan.messages.size() && said.messages == placed &&
                   request == MPI_REQUEST_NULL;
        }
    };

    [[nodiscard]] Bytes receive(Source& source, Bytes budget);
    /// What is placed by now is answered for, and its slots are free.
    void settle(Source& source);
    /// Whether the next message is in its slot, and is the one expected.
    [[nodiscard]] bool has_next(Source& source);
    void look_at_ring(Source& source);
    void check(Source& source, const Slot& slot, const MPI_Status& status);
    void post_receives(Source& source);
    /// What the source waits for; by messages as soon as the answer before it has left.
    void answer(Source& source);
    /// The source would wait for its answer.
    void refuse(Source& source);

    const Context& context_;
    const Mover& mover_;
    Requests requests_;
    std::unique_ptr<Staging> staging_;
    Bytes slot_;
    std::vector<Source> sources_;
    std::optional<std::size_t> own_;
    std::uint64_t epoch_ = 0, former_ = 0;
    std::size_t left_ = 0;
};

}  // namespace weightlift::transport::staged
