#include "push.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace weightlift::transport::mpi_rma {
namespace {

constexpr Bytes kMaxPut = 16 * MiB;
constexpr Bytes kSlice = 16 * MiB;
/// Where the plan sets no window: a flush waits for all that is outstanding, and test() must not
/// block for long.
constexpr Bytes kWindow = 64 * MiB;

}  // namespace

MpiPush::MpiPush(const BoundPlan& plan, const Context& context, Windows& windows,
                 const memory::Arena& arena)
    : context_(context),
      windows_(windows),
      arena_(arena.data()),
      window_(plan.window == 0 ? kWindow : plan.window),
      slice_(context.slice == 0 ? kSlice : context.slice) {
    check_bounds(plan, arena.bytes(), context.label);
    const Bytes max_put = std::min(context.max_message == 0 ? kMaxPut : context.max_message, GiB);
    puts_ = make_puts(plan.copies, std::min(max_put, window_), types_);
    sends_.reserve(plan.destinations.size());
    for (const Destination& destination : plan.destinations) {
        const Place place = windows.find(destination.rank);
        targets_.push_back({.rank = destination.rank, .place = place});
        sends_.add_send(place.rank, windows.comm(place));
    }
    for (std::size_t i = 0; i < puts_.size(); ++i) targets_[puts_[i].destination].last = i + 1;
    receives_.reserve(plan.sources.size());
    for (const int source : plan.sources) {
        const Place place = windows.find(source);
        sources_.push_back({.rank = source});
        receives_.add_receive(place.rank, windows.comm(place));
    }
}

MpiPush::~MpiPush() {
    if (state_ == State::Idle) return;
    // Given up half-way: a peer may be lost.
    windows_.abandon();
    sends_.abandon();
    receives_.abandon();
}

void MpiPush::fail(const std::string& what) {
    state_ = State::Dead;
    throw TransportError("mpi: " + what);
}

void MpiPush::check(int rc, const char* call, int rank) {
    if (rc == MPI_SUCCESS) return;
    try {
        weightlift::mpi::check(rc, call);
    } catch (const TransportError& error) {
        fail(fmt::format("{} in the push of epoch {} to {}", error.what(), epoch_,
                         context_.label(rank)));
    }
}

void MpiPush::start(std::uint64_t /*version*/, std::uint64_t epoch) {
    WEIGHTLIFT_ENSURES(state_ == State::Idle);
    state_ = State::Running;
    epoch_ = epoch;
    next_ = notified_ = arrived_ = 0;
    windows_.sync();  // what this process wrote to its memory comes before what others put
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        sources_[i].arrived = false;
        receives_.start(i);
    }
    for (std::uint32_t t = 0; t < targets_.size(); ++t) {
        targets_[t].notified = false;
        if (targets_[t].last == 0) notify(t);
    }
}

bool MpiPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    put(slice_);
    look_for_arrivals();
    const bool sent = notified_ == targets_.size() && sends_.all_done();
    if (!sent || arrived_ < sources_.size()) return false;
    windows_.sync();
    state_ = State::Idle;
    return true;
}

void MpiPush::put(Bytes budget) {
    if (next_ == puts_.size()) return;
    // MPI_Put and MPI_Win_flush may wait for a peer that is lost, and cannot be polled. Half the
    // timeout: the guard must speak before the phase's own deadline makes others miss this rank.
    // The captures fit std::function's own space: nothing is allocated.
    const auto timeout = context_.timeout / 2;
    const auto guard = context_.watchdog->guard(weightlift::mpi::Deadline(timeout), [this,
                                                                                     timeout] {
        return fmt::format(
            "{}: no answer from {} in MPI_Put or MPI_Win_flush, push of epoch {}, within {:g} s",
            context_.label(context_.world->rank()), context_.label(targets_[putting_to_].rank),
            epoch_, std::chrono::duration<double>(timeout).count());
    });
    while (next_ < puts_.size() && budget > 0) {
        const Put& put = puts_[next_];
        putting_to_ = put.destination;
        Target& target = targets_[put.destination];
        if (target.outstanding + put.bytes > window_) flush(target);
        check(MPI_Put(arena_ + put.src_offset, put.src_count, put.src_type, target.place.rank,
                      static_cast<MPI_Aint>(put.dst_offset), put.dst_count, put.dst_type,
                      windows_.win(target.place)),
              "MPI_Put", target.rank);
        target.outstanding += put.bytes;
        budget -= std::min(budget, put.bytes);
        if (++next_ == target.last) {
            flush(target);
            notify(put.destination);
        }
    }
}

void MpiPush::flush(Target& target) {
    check(MPI_Win_flush(target.place.rank, windows_.win(target.place)), "MPI_Win_flush",
          target.rank);
    completed_ += target.outstanding;
    target.outstanding = 0;
}

void MpiPush::notify(std::uint32_t index) {
    sends_.epoch(index) = epoch_;
    sends_.start(index);
    targets_[index].notified = true;
    ++notified_;
}

void MpiPush::look_for_arrivals() {
    for (const int i : receives_.newly_done()) {
        const auto index = static_cast<std::size_t>(i);
        Source& source = sources_[index];
        if (receives_.epoch(index) != epoch_)
            fail(fmt::format("{} has notified epoch {}, but {} is under way",
                             context_.label(source.rank), receives_.epoch(index), epoch_));
        source.arrived = true;
        ++arrived_;
    }
}

std::vector<int> MpiPush::pending() const {
    if (state_ == State::Idle) return {};
    std::vector<int> peers;
    for (const Target& target : targets_)
        if (!target.notified) peers.push_back(target.rank);
    for (const Source& source : sources_)
        if (!source.arrived) peers.push_back(source.rank);
    std::sort(peers.begin(), peers.end());
    return peers;
}

}  // namespace weightlift::transport::mpi_rma
