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
    void allow(std::size_t end) override;
    [[nodiscard]] std::size_t placed() const override { return placed_; }
    [[nodiscard]] std::uint32_t signals_from(std::size_t source) const override {
        return sources_[source].signals;
    }
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
    /// By which a destination confirms messages and the segments that they end.
    struct Answer {
        std::uint64_t epoch = 0, messages = 0, segments = 0;
        friend bool operator==(const Answer&, const Answer&) = default;
    };
    struct Target {
        int rank = 0;
        Bytes bytes = 0;             ///< of a push
        std::uint64_t messages = 0;  ///< of a push
        std::uint32_t segments = 0;  ///< of a push
        Answer said{}, last{};       ///< what is being received; what was taken
        MPI_Request request = MPI_REQUEST_NULL;
        [[nodiscard]] bool is_done() const { return last.messages == messages; }
    };
    struct Source {
        Parts::Incoming plan;
        std::vector<Slot> slots;
        std::size_t posted = 0, taken = 0, placed = 0;  ///< messages
        std::uint32_t signals = 0;                      ///< segments
        Answer said;                                    ///< what was sent back last
        MPI_Request request = MPI_REQUEST_NULL;
        [[nodiscard]] bool is_placed() const { return placed == plan.messages.size(); }
        [[nodiscard]] bool is_done() const {
            return is_placed() && said.messages == placed && request == MPI_REQUEST_NULL;
        }
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
    /// What was moved within this rank's memory is there.
    void arrive_here(const Message& message);
    /// What the source waits for, as soon as the answer before it has left.
    void answer(Source& source);
    void send_answer(Source& source, const Answer& answer);
    void refuse(Source& source);
    void listen_to(Target& target);
    void look_for_confirmations();
    void count_placed();
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
    /// Where this rank is its own destination, it moves the bytes by itself.
    std::optional<std::size_t> own_target_, own_source_;
    /// Of the plan: whose they are, and how many to that destination there are with it.
    struct Held {
        std::uint32_t target = 0, count = 0;
    };
    std::vector<Held> segments_;
    std::unique_ptr<Remains> remains_ = std::make_unique<Remains>();

    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
    std::size_t moved_ = 0,
                sent_ = 0;  ///< messages that have left the arena; that are on their way
    std::size_t allowed_ = 0, placed_ = 0;  ///< segments
    std::size_t targets_left_ = 0, sources_left_ = 0;
    Bytes completed_ = 0;
};

/// Staging of a rank with so many sources, in slots of `slot` bytes.
[[nodiscard]] Bytes staging_bytes(std::size_t destinations, std::size_t sources, Bytes slot);

}  // namespace weightlift::transport::staged
