// MPI behind values: the only folder that calls MPI, with transport/mpi and
// transport/staged. Every call is checked,
// also in Release. Collectives are non-blocking calls polled under a deadline, so that a lost peer
// becomes an error that names it and not a hang.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <mpi.h>

#include "weightlift/base/bytes.hpp"
#include "weightlift/base/error.hpp"
#include "weightlift/mpi/deadline.hpp"

namespace weightlift::mpi {

/// Throws TransportError with MPI's text where rc is not MPI_SUCCESS. `call` names the call.
void check(int rc, const char* call);

/// MPI_Init_thread (FUNNELED) / MPI_Finalize. One per process. Sets MPI_ERRORS_RETURN.
class Environment {
public:
    Environment(int* argc, char*** argv);
    ~Environment();
    /// MPI_Finalize, for callers that guard it with a deadline; otherwise the destructor does it.
    void finalize();
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

private:
    bool is_open_ = true;
};

/// Number of tasks that a launcher (Open MPI, PMI, Slurm step) says it started, from the
/// environment; 0 without one. A world smaller than that is a broken launch.
[[nodiscard]] int launcher_world_size();

/// First line of what the MPI library says of itself; may be called before MPI_Init.
[[nodiscard]] std::string library_version();

using Bytestring = std::vector<std::byte>;

/// Another rank has failed, and will say why itself.
class AlarmError : public Error {
public:
    using Error::Error;
};

/// A duplicated communicator; move-only. All methods without "Collective" are local or point to
/// point. User tags are 0 .. 31998.
///
/// Who is missing: when a wait expires, the rank tells rank 0, rank 0 calls the roll for
/// min(2 s, timeout), and all live ranks throw the same DeadlineError, which names the ranks that
/// did not answer. A rank answers from inside any wait, or from listen(). After a DeadlineError the
/// communicator is only good for abort().
class Communicator {
public:
    /// Collective. Duplicates MPI_COMM_WORLD.
    [[nodiscard]] static Communicator world();
    ~Communicator();
    Communicator(Communicator&& other) noexcept;
    Communicator& operator=(Communicator&& other) noexcept;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    [[nodiscard]] MPI_Comm get() const { return comm_; }

    /// Collective over `ranks` only (all of them must call, with the same list). ranks are of this
    /// communicator, ascending; the new rank is the position in the list.
    [[nodiscard]] Communicator create_group(std::span<const int> ranks, int tag) const;

    /// Collective. All below wait until `deadline` and then throw DeadlineError naming `phase`.
    void barrier(const Deadline& deadline, const char* phase) const;
    template <class T>
    [[nodiscard]] T sum(T value, const Deadline& deadline, const char* phase) const {
        all_reduce(&value, 1, type_of<T>(), MPI_SUM, deadline, phase);
        return value;
    }
    template <class T>
    [[nodiscard]] T max(T value, const Deadline& deadline, const char* phase) const {
        all_reduce(&value, 1, type_of<T>(), MPI_MAX, deadline, phase);
        return value;
    }
    template <class T>
    [[nodiscard]] T min(T value, const Deadline& deadline, const char* phase) const {
        all_reduce(&value, 1, type_of<T>(), MPI_MIN, deadline, phase);
        return value;
    }
    /// Element-wise sum at rank 0, in place; other ranks' spans are unchanged. Cut into blocks.
    void reduce_sum_to_root(std::span<std::uint64_t> values, const Deadline& deadline,
                            const char* phase) const;
    /// Fixed-size records of every rank at rank 0, in rank order; empty elsewhere.
    template <class T>
    requires std::is_trivially_copyable_v<T>
    [[nodiscard]] std::vector<T> gather(const T& value, const Deadline& deadline,
                                        const char* phase) const {
        std::vector<T> all(rank_ == 0 ? static_cast<std::size_t>(size_) : 0);
        gather_bytes(&value, sizeof(T), all.data(), deadline, phase);
        return all;
    }
    /// Any-size byte strings of every rank at rank 0, in rank order; empty elsewhere. Totals may
    /// pass 2 GiB.
    [[nodiscard]] std::vector<Bytestring> gather_strings(std::span<const std::byte> value,
                                                         const Deadline& deadline,
                                                         const char* phase) const;
    /// Rank 0's bytes on every rank; `value` is resized.
    void broadcast(Bytestring& value, const Deadline& deadline, const char* phase) const;

    /// Sends outgoing[r] to each rank r of it and receives one message from each rank in `sources`;
    /// both ends know their peers, so no rank talks to one it shares nothing with. A timeout names
    /// the peers not heard from. Messages may pass 2 GiB.
    [[nodiscard]] std::map<int, Bytestring> exchange(const std::map<int, Bytestring>& outgoing,
                                                     std::span<const int> sources, int tag,
                                                     const Deadline& deadline,
                                                     const char* phase) const;

    /// Called (if set) between polls of every wait above; may throw, which ends the wait.
    void set_idle(std::function<void()> idle) { idle_ = std::move(idle); }
    /// Names ranks in messages: "rank 7 (host n042)". Default "rank 7".
    void set_labels(std::function<std::string(int)> label) { label_ = std::move(label); }
    [[nodiscard]] std::string label(int rank) const;

    /// Polls until the request is done, the deadline passes (DeadlineError) or idle throws.
    void wait(MPI_Request* request, const Deadline& deadline, const char* phase) const;
    /// `stop` says why this process is to end, once it has been told to (by a signal, say). From
    /// then on listen() raises the alarm and throws that, and no other wait lasts longer than
    /// kLeave: whoever told will not wait for a peer that is stuck.
    void set_stop(std::function<std::optional<Error>()> stop) { stop_ = std::move(stop); }
    static constexpr std::chrono::seconds kLeave{5};
    /// For loops that wait for something else than MPI: answers a roll call, and throws where
    /// another rank's deadline has passed, AlarmError where another has raised the alarm, or what
    /// `stop` says. Cheap enough for every turn of a loop.
    void listen() const;
    /// Ends the loops of all other ranks that listen (no other waits): this one will not bring what
    /// they wait for, and is about to say why.
    void raise_alarm() const;
    /// Such a loop's deadline has passed: calls the roll and throws DeadlineError. `event` is what
    /// was awaited ("arrival from rank 3"), used where every rank answers.
    [[noreturn]] void expire(const Deadline& deadline, const char* phase,
                             const std::string& event) const;
    /// Ends all ranks through the launcher.
    [[noreturn]] void abort(ExitCode code) const;

private:
    explicit Communicator(MPI_Comm comm);
    template <class Done, class Event>
    void poll(const Deadline& deadline, const char* phase, Done done, Event event) const;
    template <class Buffer>
    void finish(MPI_Request request, Buffer& buffer, const Deadline& deadline,
                const char* phase) const;
    void answer_roll_call() const;
    [[nodiscard]] std::optional<Error> told_to_stop() const;
    void release() noexcept;
    template <class T>
    static MPI_Datatype type_of() {
        if constexpr (std::is_same_v<T, std::uint64_t>) return MPI_UINT64_T;
        if constexpr (std::is_same_v<T, std::int64_t>) return MPI_INT64_T;
        if constexpr (std::is_same_v<T, int>) return MPI_INT;
        if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
    }
    void all_reduce(void* value, int count, MPI_Datatype type, MPI_Op op, const Deadline& deadline,
                    const char* phase) const;
    void gather_bytes(const void* value, std::size_t bytes, void* all, const Deadline& deadline,
                      const char* phase) const;

    MPI_Comm comm_ = MPI_COMM_NULL;
    int rank_ = 0;
    int size_ = 1;
    std::function<void()> idle_;
    std::function<std::string(int)> label_;
    std::function<std::optional<Error>()> stop_;
    mutable std::optional<Clock::time_point> told_;  ///< when `stop` first had something to say
    mutable bool lost_ = false;             ///< a deadline passed: pending operations stay behind
    mutable Clock::time_point heard_{};     ///< last look for a roll call
    mutable Clock::time_point listened_{};  ///< last look for an alarm
};

}  // namespace weightlift::mpi
