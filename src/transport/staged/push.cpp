#include "push.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace weightlift::transport::staged {
namespace {

constexpr int kDataTag = 31031;
constexpr int kConfirmTag = 31032;
constexpr Bytes kSlice = 16 * MiB;
constexpr std::uint64_t kRefused = 0;  // epochs begin at 1

/// Of `rank`, if it is among them.
template <class List>
std::optional<std::size_t> find_rank(const List& list, int rank) {
    for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i].rank == rank) return i;
    return std::nullopt;
}

}  // namespace

Bytes staging_bytes(std::size_t destinations, std::size_t sources, Bytes slot) {
    return ((destinations > 0 ? kOutSlots : 0) + sources * kInSlots) * slot;
}

StagedPush::StagedPush(const BoundPlan& plan, Parts parts)
    : context_(parts.context),
      slot_(parts.slot),
      slice_(context_.slice == 0 ? kSlice : context_.slice),
      cut_(std::move(parts.cut)),
      staging_(memory::make_host_arena(
          staging_bytes(plan.destinations.size(), parts.incoming.size(), slot_))),
      mover_(parts.arena, context_.cuda.device, *staging_) {
    std::byte* next = staging_->data();
    const auto make_slots = [&](std::size_t count) {
        std::vector<Slot> slots(count);
        for (Slot& slot : slots) {
            slot.at = std::exchange(next, next + slot_);
            slot.ticket = mover_.make_ticket();
        }
        return slots;
    };
    if (!plan.destinations.empty()) out_ = make_slots(kOutSlots);
    for (const Destination& destination : plan.destinations)
        targets_.push_back({.rank = destination.rank});
    for (const Message& message : cut_.messages) {
        targets_[message.destination].bytes += message.bytes;
        ++targets_[message.destination].messages;
    }
    for (const Segment& segment : plan.segments) {
        Target& target = targets_[segment.destination];
        segments_.push_back({segment.destination, ++target.segments});
    }
    const int own = context_.world->rank();
    if (const auto source = find_rank(parts.incoming, own)) {
        own_source_ = source;
        own_target_ = find_rank(targets_, own);
    }
    for (Parts::Incoming& incoming : parts.incoming) {
        Source& source = sources_.emplace_back();
        source.plan = std::move(incoming);
        source.slots = make_slots(kInSlots);
    }
}

StagedPush::~StagedPush() {
    if (state_ == State::Idle) return;
    // Given up half-way, perhaps since a peer is lost: nothing here may wait for one. What is under
    // way stays behind, with the memory that MPI may still read or write.
    try {
        mover_.finish();
    } catch (const Error& error) {
        fmt::print(stderr, "weightlift: {}\n", error.what());
    }
    const auto let_go = [](MPI_Request& request, bool is_receive) {
        if (request == MPI_REQUEST_NULL) return;
        if (is_receive) MPI_Cancel(&request);
        MPI_Request_free(&request);
    };
    for (Slot& slot : out_) let_go(slot.request, false);
    for (Target& target : targets_) let_go(target.request, true);
    for (Source& source : sources_) {
        for (Slot& slot : source.slots) let_go(slot.request, true);
        let_go(source.request, false);
    }
    remains_->staging = std::move(staging_);
    remains_->targets = std::move(targets_);
    remains_->sources = std::move(sources_);
    [[maybe_unused]] const Remains* kept = remains_.release();
}

void StagedPush::fail(const std::string& what) const { throw TransportError("staged: " + what); }

bool StagedPush::test_request(MPI_Request& request, const char* call, int rank,
                              MPI_Status* status) {
    int done = 0;
    try {
        mpi::check(MPI_Test(&request, &done, status), call);
    } catch (const TransportError& error) {
        fail(fmt::format("{} in the push of epoch {} with {}", error.what(), epoch_,
                         context_.label(rank)));
    }
    return done != 0;
}

void StagedPush::start(std::uint64_t /*version*/, std::uint64_t epoch) {
    WEIGHTLIFT_ENSURES(state_ == State::Idle);
    state_ = State::Running;
    epoch_ = epoch;
    moved_ = sent_ = allowed_ = placed_ = 0;
    targets_left_ = targets_.size();
    sources_left_ = sources_.size();
    for (std::size_t i = 0; i < targets_.size(); ++i) {
        targets_[i].last = {};
        if (i != own_target_) listen_to(targets_[i]);
    }
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        Source& source = sources_[i];
        source.posted = source.taken = source.placed = 0;
        source.signals = 0;
        source.said = {};
        if (i != own_source_) post_receives(source);
    }
}

void StagedPush::allow(std::size_t end) {
    WEIGHTLIFT_ENSURES(allowed_ <= end && end <= segments_.size());
    allowed_ = end;
}

void StagedPush::post_receives(Source& source) {
    while (source.posted < source.plan.messages.size()) {
        Slot& slot = source.slots[source.posted % kInSlots];
        if (slot.state != At::Free) return;
        mpi::check(MPI_Irecv(slot.at, static_cast<int>(slot_), MPI_BYTE, source.plan.rank, kDataTag,
                             context_.world->get(), &slot.request),
                   "MPI_Irecv");
        slot.state = At::Travelling;
        slot.message = source.posted++;
    }
}

bool StagedPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    state_ = State::Dead;  // where the next throws
    Bytes moved = send(slice_);
    sources_left_ = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        if (moved < slice_ && i != own_source_) moved += receive(sources_[i], slice_ - moved);
        if (!sources_[i].is_done()) ++sources_left_;
    }
    look_for_confirmations();
    count_placed();
    const bool done = targets_left_ == 0 && sources_left_ == 0 &&
                      std::all_of(out_.begin(), out_.end(),
                                  [](const Slot& slot) { return slot.state == At::Free; });
    state_ = done ? State::Idle : State::Running;
    return done;
}

Bytes StagedPush::send(Bytes budget) {
    Bytes moved = 0;
    for (Slot& slot : out_)
        if (slot.state == At::Travelling) {
            const int rank = targets_[cut_.messages[slot.message].destination].rank;
            if (test_request(slot.request, "MPI_Isend", rank)) slot.state = At::Free;
        }
    // Slots are taken in turn, so that messages leave in the order in which they are moved.
    while (moved_ < cut_.messages.size() && cut_.messages[moved_].needs <= allowed_ &&
           moved < budget) {
        Slot& slot = out_[moved_ % kOutSlots];
        if (slot.state != At::Free) break;
        const Message& message = cut_.messages[moved_];
        const std::span parts(cut_.parts.data() + message.first, message.count);
        slot.header() = {.epoch = epoch_, .index = message.index};
        slot.message = moved_++;
        if (message.destination == own_target_)
            mover_.place(parts, slot.ticket);
        else
            mover_.gather(parts, slot.payload(), slot.ticket);
        slot.state = At::Moving;
        moved += message.bytes;
    }
    while (sent_ < moved_) {
        Slot& slot = out_[sent_ % kOutSlots];
        if (!Mover::is_done(slot.ticket)) break;
        const Message& message = cut_.messages[sent_++];
        if (message.destination == own_target_) {
            arrive_here(message);
            slot.state = At::Free;
            continue;
        }
        mpi::check(MPI_Isend(slot.at, static_cast<int>(sizeof(Header) + message.bytes), MPI_BYTE,
                             targets_[message.destination].rank, kDataTag, context_.world->get(),
                             &slot.request),
                   "MPI_Isend");
        slot.state = At::Travelling;
    }
    return moved;
}

Bytes StagedPush::receive(Source& source, Bytes budget) {
    Bytes moved = 0;
    while (source.taken < source.posted && moved < budget) {
        Slot& slot = source.slots[source.taken % kInSlots];
        MPI_Status status;
        if (!test_request(slot.request, "MPI_Irecv", source.plan.rank, &status)) break;
        take(source, slot, status);
        moved += source.plan.messages[slot.message].bytes;
    }
    while (source.placed < source.taken) {
        Slot& slot = source.slots[source.placed % kInSlots];
        if (!Mover::is_done(slot.ticket)) break;
        slot.state = At::Free;
        source.signals = source.plan.messages[source.placed++].signals;
    }
    post_receives(source);
    answer(source);
    return moved;
}

void StagedPush::arrive_here(const Message& message) {
    Source& source = sources_[*own_source_];
    Target& target = targets_[*own_target_];
    ++source.placed;
    source.signals = message.signals;
    source.said = target.last = {epoch_, source.placed, source.signals};
    if (!target.is_done()) return;
    completed_ += target.bytes;
    --targets_left_;
}

void StagedPush::answer(Source& source) {
    if (source.request != MPI_REQUEST_NULL &&
        !test_request(source.request, "MPI_Isend", source.plan.rank))
        return;
    const bool is_last = source.is_placed() && source.said.messages < source.placed;
    if (is_last || source.said.segments < source.signals)
        send_answer(source, {epoch_, source.placed, source.signals});
}

void StagedPush::send_answer(Source& source, const Answer& answer) {
    source.said = answer;
    mpi::check(MPI_Isend(&source.said, sizeof(Answer), MPI_BYTE, source.plan.rank, kConfirmTag,
                         context_.world->get(), &source.request),
               "MPI_Isend");
}

/// The source would wait for its answer.
void StagedPush::refuse(Source& source) {
    static const Answer refusal{kRefused, 0, 0};  // the last one may still be on its way
    if (source.request != MPI_REQUEST_NULL) MPI_Request_free(&source.request);
    mpi::check(MPI_Isend(&refusal, sizeof refusal, MPI_BYTE, source.plan.rank, kConfirmTag,
                         context_.world->get(), &source.request),
               "MPI_Isend");
}

void StagedPush::take(Source& source, Slot& slot, const MPI_Status& status) {
    const Message& message = source.plan.messages[slot.message];
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    const std::string peer = context_.label(source.plan.rank);
    const bool is_of_push =
        static_cast<Bytes>(bytes) >= sizeof(Header) && slot.header().epoch == epoch_;
    const bool is_right = is_of_push && slot.header().index == message.index &&
                          static_cast<Bytes>(bytes) == sizeof(Header) + message.bytes;
    if (!is_right) refuse(source);
    if (!is_of_push)
        fail(fmt::format("{} has notified epoch {}, but {} is under way", peer, slot.header().epoch,
                         epoch_));
    if (!is_right)
        fail(fmt::format("{} has sent {} bytes as message {} of its push, instead of {} as {}",
                         peer, bytes, slot.header().index, sizeof(Header) + message.bytes,
                         message.index));
    mover_.scatter({source.plan.parts.data() + message.first, message.count}, slot.payload(),
                   slot.ticket);
    slot.state = At::Moving;
    ++source.taken;
}

void StagedPush::listen_to(Target& target) {
    mpi::check(MPI_Irecv(&target.said, sizeof(Answer), MPI_BYTE, target.rank, kConfirmTag,
                         context_.world->get(), &target.request),
               "MPI_Irecv");
}

void StagedPush::look_for_confirmations() {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
        Target& target = targets_[i];
        if (i == own_target_ || target.is_done() ||
            !test_request(target.request, "MPI_Irecv", target.rank))
            continue;
        const Answer& said = target.said;
        if (said.epoch == kRefused)
            fail(fmt::format("{} refuses the push of epoch {}", context_.label(target.rank),
                             epoch_));
        if (said.epoch != epoch_)
            fail(fmt::format("{} confirms epoch {}, but {} is under way",
                             context_.label(target.rank), said.epoch, epoch_));
        const bool is_last = said.messages == target.messages;
        if (said.messages <= target.last.messages || said.messages > target.messages ||
            said.segments < target.last.segments || said.segments > target.segments ||
            (is_last && said.segments < target.segments))
            fail(fmt::format("{} confirms {} messages and {} segments of {} and {}",
                             context_.label(target.rank), said.messages, said.segments,
                             target.messages, target.segments));
        target.last = said;
        if (!is_last) {
            listen_to(target);
            continue;
        }
        completed_ += target.bytes;
        --targets_left_;
    }
}

void StagedPush::count_placed() {
    while (placed_ < segments_.size() &&
           segments_[placed_].count <= targets_[segments_[placed_].target].last.segments)
        ++placed_;
}

std::vector<int> StagedPush::pending() const {
    if (state_ == State::Idle) return {};
    std::vector<int> peers;
    for (const Target& target : targets_)
        if (!target.is_done()) peers.push_back(target.rank);
    for (const Source& source : sources_)
        if (!source.is_done()) peers.push_back(source.plan.rank);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
}

}  // namespace weightlift::transport::staged
