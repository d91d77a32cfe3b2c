// A push by MPI_Put. A destination's bytes are flushed, then it gets a small message with the
// epoch, so that what it has received says what it may read.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "puts.hpp"
#include "window.hpp"

namespace weightlift::transport::mpi_rma {

/// Persistent epoch messages of one direction. Their buffers live until no message is under way:
/// for ever where a peer was lost.
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
    [[nodiscard]] std::uint64_t& epoch(std::size_t i) { return state_->epochs[i]; }
    [[nodiscard]] bool all_done();
    /// Indices of those that have become done since the last call.
    [[nodiscard]] std::span<const int> newly_done();
    /// Some may be under way for ever.
    void abandon() { abandoned_ = true; }

private:
    struct State {
        std::vector<std::uint64_t> epochs;
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
    [[nodiscard]] std::vector<int> pending() const override;
    [[nodiscard]] Bytes completed_bytes() const override { return completed_; }

private:
    struct Target {
        int rank = 0;  ///< of the world
        Place place;
        std::size_t last = 0;  ///< index after its last put
        Bytes outstanding = 0;
        bool notified = false;
    };
    struct Source {
        int rank = 0;
        bool arrived = false;
    };
    enum class State { Idle, Running, Dead };

    void put(Bytes budget);
    void flush(Target& target);
    void notify(std::uint32_t target);
    void look_for_arrivals();
    void check(int rc, const char* call, int rank);
    [[noreturn]] void fail(const std::string& what);

    const Context& context_;
    Windows& windows_;
    const std::byte* arena_;
    Bytes window_;
    Bytes slice_;
    RowTypes types_;
    std::vector<Put> puts_;
    std::vector<Target> targets_;
    std::atomic<std::uint32_t> putting_to_ = 0;  ///< index of a target; the watchdog reads it
    std::vector<Source> sources_;
    Notices sends_;
    Notices receives_;
    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
    std::size_t next_ = 0;      ///< of puts_
    std::size_t notified_ = 0;  ///< targets
    std::size_t arrived_ = 0;   ///< sources
    Bytes completed_ = 0;
};

}  // namespace weightlift::transport::mpi_rma
