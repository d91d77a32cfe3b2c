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
/// Most signals under way to one target.
constexpr std::size_t kSignals = 64;

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
    for (const Destination& destination : plan.destinations)
        targets_.push_back({.rank = destination.rank, .place = windows.find(destination.rank)});
    make_puts_of(plan, std::min(max_put, window_));
    make_notices(plan);
}

void MpiPush::make_puts_of(const BoundPlan& plan, Bytes max_put) {
    const std::span copies(plan.copies);
    if (plan.segments.empty()) {
        puts_ = make_puts(copies, max_put, types_);
        for (std::size_t i = 0; i < puts_.size(); ++i) targets_[puts_[i].destination].last = i + 1;
        return;
    }
    std::size_t begin = 0;
    for (const Segment& segment : plan.segments) {
        const auto puts = make_puts(copies.subspan(begin, segment.end - begin), max_put, types_);
        puts_.insert(puts_.end(), puts.begin(), puts.end());
        segments_.push_back({puts_.size(), segment.destination});
        ++targets_[segment.destination].segments;
        begin = segment.end;
    }
}

void MpiPush::make_notices(const BoundPlan& plan) {
    const auto ring = [](const Target& target) { return std::min(target.segments, kSignals); };
    std::size_t sends = targets_.size();
    for (const Target& target : targets_) sends += ring(target);
    sends_.reserve(sends);
    for (const Target& target : targets_)
        sends_.add_send(target.place.rank, windows_.comm(target.place));
    sends = targets_.size();
    for (Target& target : targets_) {
        target.first_signal = sends;
        for (std::size_t i = 0; i < ring(target); ++i, ++sends)
            sends_.add_send(target.place.rank, windows_.comm(target.place));
    }
    receives_.reserve(plan.sources.size());
    for (std::size_t i = 0; i < plan.sources.size(); ++i) {
        const Place place = windows_.find(plan.sources[i]);
        sources_.push_back(
            {.rank = plan.sources[i], .expected = plan.signals.empty() ? 0 : plan.signals[i]});
        receives_.add_receive(place.rank, windows_.comm(place));
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
    allowed_ = placed_ = 0;
    windows_.sync();  // what this process wrote to its memory comes before what others put
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        sources_[i].arrived = false;
        sources_[i].signals = 0;
        receives_.start(i);
    }
    for (std::uint32_t t = 0; t < targets_.size(); ++t) {
        targets_[t].notified = false;
        targets_[t].signalled = 0;
        if (targets_[t].last == 0 && targets_[t].segments == 0) notify(t);
    }
}

void MpiPush::allow(std::size_t end) {
    WEIGHTLIFT_ENSURES(end >= allowed_ && end <= segments_.size());
    allowed_ = end;
}

bool MpiPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    if (segments_.empty() ? next_ < puts_.size() : placed_ < allowed_) put(slice_);
    look_for_arrivals();
    const bool sent = notified_ == targets_.size() && sends_.all_done();
    if (!sent || arrived_ < sources_.size()) return false;
    windows_.sync();
    state_ = State::Idle;
    return true;
}

void MpiPush::put(Bytes budget) {
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
    if (!segments_.empty()) return put_segments(budget);
    while (next_ < puts_.size() && budget > 0) {
        const Put& put = puts_[next_];
        Target& target = targets_[put.destination];
        put_one(put);
        budget -= std::min(budget, put.bytes);
        if (++next_ == target.last) {
            flush(target);
            notify(put.destination);
        }
    }
}

void MpiPush::put_segments(Bytes budget) {
    while (placed_ < allowed_ && budget > 0) {
        const Part& part = segments_[placed_];
        for (; next_ < part.end && budget > 0; ++next_) {
            put_one(puts_[next_]);
            budget -= std::min(budget, puts_[next_].bytes);
        }
        if (next_ < part.end) return;
        Target& target = targets_[part.target];
        putting_to_ = part.target;
        if (target.outstanding > 0) flush(target);
        if (!signal(target)) return;
        ++placed_;
        if (target.signalled == target.segments) notify(part.target);
    }
}

void MpiPush::put_one(const Put& put) {
    putting_to_ = put.destination;
    Target& target = targets_[put.destination];
    if (target.outstanding + put.bytes > window_) flush(target);
    check(MPI_Put(arena_ + put.src_offset, put.src_count, put.src_type, target.place.rank,
                  static_cast<MPI_Aint>(put.dst_offset), put.dst_count, put.dst_type,
                  windows_.win(target.place)),
          "MPI_Put", target.rank);
    target.outstanding += put.bytes;
}

void MpiPush::flush(Target& target) {
    check(MPI_Win_flush(target.place.rank, windows_.win(target.place)), "MPI_Win_flush",
          target.rank);
    completed_ += target.outstanding;
    target.outstanding = 0;
}

bool MpiPush::signal(Target& target) {
    const std::size_t i =
        target.first_signal + target.signalled % std::min(target.segments, kSignals);
    if (!sends_.is_done(i)) return false;
    sends_.notice(i) = {.epoch = epoch_, .segment = target.signalled++};
    sends_.start(i);
    return true;
}

void MpiPush::notify(std::uint32_t index) {
    sends_.notice(index) = {.epoch = epoch_};
    sends_.start(index);
    targets_[index].notified = true;
    ++notified_;
}

void MpiPush::look_for_arrivals() {
    bool has_signals = false;
    bool is_more = true;
    while (is_more) {
        is_more = false;
        for (const int i : receives_.newly_done()) {
            const auto index = static_cast<std::size_t>(i);
            if (!accept(sources_[index], receives_.notice(index))) continue;
            receives_.start(index);
            has_signals = is_more = true;
        }
    }
    if (has_signals) windows_.sync();
}

bool MpiPush::accept(Source& source, const Notice& notice) {
    if (notice.epoch != epoch_)
        fail(fmt::format("{} has notified epoch {}, but {} is under way",
                         context_.label(source.rank), notice.epoch, epoch_));
    if (notice.segment == Notice::kEnd && source.signals == source.expected) {
        source.arrived = true;
        ++arrived_;
        return false;
    }
    if (notice.segment != source.signals || source.signals == source.expected)
        fail(fmt::format("{} has {} after {} of {} segments in the push of epoch {}",
                         context_.label(source.rank),
                         notice.segment == Notice::kEnd
                             ? "ended"
                             : fmt::format("signalled segment {}", notice.segment),
                         source.signals, source.expected, epoch_));
    ++source.signals;
    return true;
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
