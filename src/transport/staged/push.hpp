// A push through staging buffers in host memory, by two-sided messages: what works wherever MPI
// does. Moving and sending overlap message by message.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <mpi.h>

#include "weightlift/transport/transport.hpp"

#include "cut.hpp"
#include "mover.hpp"

namespace weightlift::transport::staged {

/// In front of every payload.
struct Header {
    std::uint64_t epoch = 0, index = 0;
    std::uint64_t unused[6] = {};
};
static_assert(sizeof(Header) == 64);

/// Staging of a source: messages on their way out, in order. Of a destination: slots per source.
inline constexpr std::size_t kOutSlots = 8, kInSlots = 3;

class StagedPush final : public Push {
public:
    struct Parts {
        const Context& context;
        memory::Arena& arena;
        Bytes slot = 0;  ///< bytes of a slot here, with its header
        Cut cut;         ///< what this rank sends
        struct Incoming {
            int rank = 0;
            std::vector<Part> parts;
            std::vector<Message> messages;
        };
        std::vector<Incoming> incoming;
    };
    StagedPush(const BoundPlan& plan, Parts parts);
    ~StagedPush() override;

    void start(std::uint64_t version, std::uint64_t epoch) override;
    [[nodiscard]] bool test() override;
    [[nodiscard]] std::vector<int> pending() const override;
    [[nodiscard]] Bytes completed_bytes() const override { return completed_; }

private:
    enum class At { Free, Moving, Travelling };
    struct Slot {
        std::byte* at = nullptr;
        At state = At::Free;
        std::size_t message = 0;
        MPI_Request request = MPI_REQUEST_NULL;
        Ticket ticket;
        [[nodiscard]] std::byte* payload() const { return at + sizeof(Header); }
        [[nodiscard]] Header& header() const { return *reinterpret_cast<Header*>(at); }
    };
    struct Target {
        int rank = 0;
        Bytes bytes = 0;  ///< of a push
        bool is_done = false;
        std::uint64_t said = 0;  ///< epoch by which the destination confirms
        MPI_Request request = MPI_REQUEST_NULL;
    };
    struct Source {
        Parts::Incoming plan;
        std::vector<Slot> slots;
        std::size_t posted = 0, taken = 0, placed = 0;  ///< messages
        std::uint64_t said = 0;                         ///< what is sent back
        MPI_Request request = MPI_REQUEST_NULL;
        [[nodiscard]] bool is_placed() const { return placed == plan.messages.size(); }
        [[nodiscard]] bool is_done() const { return is_placed() && request == MPI_REQUEST_NULL; }
    };
    enum class State { Idle, Running, Dead };
    /// Of a push that was given up: MPI may still read or write it, so that nobody frees it.
    struct Remains {
        std::unique_ptr<memory::Arena> staging;
        std::vector<Target> targets;
        std::vector<Source> sources;
    };

    /// Each moves about `budget` bytes at most, and returns what it has moved.
    [[nodiscard]] Bytes send(Bytes budget);
    [[nodiscard]] Bytes receive(Source& source, Bytes budget);
    void post_receives(Source& source);
    void take(Source& source, Slot& slot, const MPI_Status& status);
    /// What the source waits for.
    void answer(Source& source, std::uint64_t epoch);
    void look_for_confirmations();
    [[nodiscard]] bool test_request(MPI_Request& request, const char* call, int rank,
                                    MPI_Status* status = MPI_STATUS_IGNORE);
    [[noreturn]] void fail(const std::string& what) const;

    const Context& context_;
    Bytes slot_, slice_;
    Cut cut_;
    std::unique_ptr<memory::Arena> staging_;
    Mover mover_;
    std::vector<Slot> out_;
    std::vector<Target> targets_;
    std::vector<Source> sources_;
    std::unique_ptr<Remains> remains_ = std::make_unique<Remains>();

    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
    std::size_t moved_ = 0,
                sent_ = 0;  ///< messages that have left the arena; that are on their way
    std::size_t targets_left_ = 0, sources_left_ = 0;
    Bytes completed_ = 0;
};

/// Staging of a rank with so many sources, in slots of `slot` bytes.
[[nodiscard]] Bytes staging_bytes(std::size_t destinations, std::size_t sources, Bytes slot);

}  // namespace weightlift::transport::staged
