// A push by MPI_Put. A destination's bytes, or those of a segment, are flushed, then it gets a
// small message, so that what it has received says what it may read.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "puts.hpp"
#include "window.hpp"

namespace weightlift::transport::mpi_rma {

/// What a rank tells one that it writes to: how many segments it has placed there before this one,
/// or that all is placed.
struct Notice {
    static constexpr std::uint64_t kEnd = ~std::uint64_t{0};
    std::uint64_t epoch = 0;
    std::uint64_t segment = kEnd;
};

/// Persistent messages of one direction. Their buffers live until no message is under way: for ever
/// where a peer was lost.
class Notices {
public:
    Notices() = default;
    ~Notices();
    Notices(const Notices&) = delete;
    Notices& operator=(const Notices&) = delete;

    void reserve(std::size_t n);
    void add_send(int rank, MPI_Comm comm);
    void add_receive(int rank, MPI_Comm comm);
    void start(std::size_t i);
    [[nodiscard]] Notice& notice(std::size_t i) { return state_->notices[i]; }
    [[nodiscard]] bool is_done(std::size_t i);
    [[nodiscard]] bool all_done();
    /// Indices of those that have become done since the last call.
    [[nodiscard]] std::span<const int> newly_done();
    /// Some may be under way for ever.
    void abandon() { abandoned_ = true; }

private:
    struct State {
        std::vector<Notice> notices;
        std::vector<MPI_Request> requests;
        std::vector<int> indices;
    };
    std::unique_ptr<State> state_ = std::make_unique<State>();
    bool abandoned_ = false;
};

class MpiPush final : public Push {
public:
    MpiPush(const BoundPlan& plan, const Context& context, Windows& windows,
            const memory::Arena& arena);
    ~MpiPush() override;

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
    struct Target {
        int rank = 0;  ///< of the world
        Place place;
        std::size_t last = 0;  ///< index after its last put
        Bytes outstanding = 0;
        bool notified = false;
        std::size_t segments = 0, signalled = 0;
        std::size_t first_signal = 0, signals = 0;  ///< of sends_, taken in turn
    };
    struct Source {
        int rank = 0;
        std::uint32_t expected = 0, signals = 0;  ///< segments
        bool arrived = false;
    };
    struct Part {
        std::size_t end = 0;  ///< of its puts
        std::uint32_t target = 0;
    };
    enum class State { Idle, Running, Dead };

    void make_puts_of(const BoundPlan& plan, Bytes max_put);
    void make_notices(const BoundPlan& plan);
    /// What is next, under the watchdog.
    void put(Bytes budget);
    void put_segments(Bytes budget);
    void put_one(const Put& put);
    void flush(Target& target);
    /// False where as many signals to the target are under way as there may be.
    [[nodiscard]] bool signal(Target& target);
    void notify(std::uint32_t target);
    void look_for_arrivals();
    /// Whether another is to come from that source.
    [[nodiscard]] bool accept(Source& source, const Notice& notice);
    void check(int rc, const char* call, int rank);
    [[noreturn]] void fail(const std::string& what);

    const Context& context_;
    Windows& windows_;
    const std::byte* arena_;
    Bytes window_;
    Bytes slice_;
    RowTypes types_;
    std::vector<Put> puts_;
    std::vector<Part> segments_;
    std::vector<Target> targets_;
    std::atomic<std::uint32_t> putting_to_ = 0;  ///< index of a target; the watchdog reads it
    std::vector<Source> sources_;
    Notices sends_;  ///< the ends by target, then signals
    Notices receives_;
    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
    std::size_t next_ = 0;                  ///< of puts_
    std::size_t notified_ = 0;              ///< targets
    std::size_t arrived_ = 0;               ///< sources
    std::size_t allowed_ = 0, placed_ = 0;  ///< segments
    Bytes completed_ = 0;
};

}  // namespace weightlift::transport::mpi_rma
