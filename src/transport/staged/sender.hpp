// The source's half of a push: messages are gathered in the plan's order, into a slot that their
// destination maps as well or, where there is none, into one of this rank and sent from there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "receiver.hpp"

namespace weightlift::transport::staged {

/// Messages on their way out, in order.
inline constexpr std::size_t kOutSlots = 8;

class Sender {
public:
    /// `rings`: by destination; those without one get messages.
    Sender(const BoundPlan& plan, const Context& context, const Mover& mover, Cut cut,
           std::vector<std::unique_ptr<PeerRing>> rings, std::unique_ptr<Staging> staging,
           Bytes slot);

    void start(std::uint64_t epoch);
    void allow(std::size_t end);
    /// Moves about `budget` bytes at most, and returns what it has moved. `here`: this rank's own
    /// half, where it is its own destination.
    [[nodiscard]] Bytes send(Bytes budget, Receiver& here);
    /// For what destinations confirm.
    void look();
    [[nodiscard]] bool is_done() const;
    [[nodiscard]] std::size_t placed() const { return placed_; }
    [[nodiscard]] Bytes completed_bytes() const { return completed_; }
    void list_pending(std::vector<int>& ranks) const;
    /// Of a push that is given up: returns whether MPI may still read or write this.
    [[nodiscard]] bool let_go();

private:
    struct Slot {
        std::byte* at = nullptr;  ///< where messages travel
        bool is_taken = false;
        std::size_t message = 0;  ///< that takes it
        MPI_Request request = MPI_REQUEST_NULL;
        Ticket ticket;
    };
    struct Target {
        int rank = 0;
        std::unique_ptr<PeerRing> ring;
        bool is_own = false;
        Bytes bytes = 0;                       ///< of a push
        std::vector<std::uint32_t> signals{};  ///< of a push, by message: segments there with it
        std::uint32_t segments = 0;            ///< of a push
        Answer said{}, last{};                 ///< what is being received; what was taken
        MPI_Request request = MPI_REQUEST_NULL;
        [[nodiscard]] bool is_done() const { return last.messages == signals.size(); }
    };

    /// What has left the arena, in order.
    void hand_over(Receiver& here);
    /// What a destination says through the ring, as it would by message; nothing new: nothing.
    [[nodiscard]] bool hear(Target& target);
    void take(Target& target, const Answer& answer);
    void listen_to(Target& target);

    const Context& context_;
    const Mover& mover_;
    Requests requests_;
    Cut cut_;
    std::unique_ptr<Staging> staging_;
    std::vector<Slot> slots_;
    std::vector<Target> targets_;
    /// Of the plan: whose they are, and how many to that destination there are with it.
    struct Held {
        std::uint32_t target = 0, count = 0;
    };
    std::vector<Held> segments_;

    std::uint64_t epoch_ = 0, former_ = 0;
    std::size_t moved_ = 0, sent_ = 0;      ///< messages gathered; handed over
    std::size_t allowed_ = 0, placed_ = 0;  ///< segments
    std::size_t left_ = 0;                  ///< targets
    Bytes completed_ = 0;
};

}  // namespace weightlift::transport::staged
