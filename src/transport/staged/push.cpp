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
    for (const Message& message : cut_.messages)
        targets_[message.destination].bytes += message.bytes;
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
    moved_ = sent_ = 0;
    targets_left_ = targets_.size();
    sources_left_ = sources_.size();
    for (Target& target : targets_) {
        target.is_done = false;
        mpi::check(MPI_Irecv(&target.said, 1, MPI_UINT64_T, target.rank, kConfirmTag,
                             context_.world->get(), &target.request),
                   "MPI_Irecv");
    }
    for (Source& source : sources_) {
        source.posted = source.taken = source.placed = 0;
        post_receives(source);
    }
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
    for (Source& source : sources_) {
        if (moved < slice_) moved += receive(source, slice_ - moved);
        if (!source.is_done()) ++sources_left_;
    }
    look_for_confirmations();
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
    while (moved_ < cut_.messages.size() && moved < budget) {
        Slot& slot = out_[moved_ % kOutSlots];
        if (slot.state != At::Free) break;
        const Message& message = cut_.messages[moved_];
        slot.header() = {.epoch = epoch_, .index = message.index};
        slot.message = moved_++;
        mover_.gather({cut_.parts.data() + message.first, message.count}, slot.payload(),
                      slot.ticket);
        slot.state = At::Moving;
        moved += message.bytes;
    }
    while (sent_ < moved_) {
        Slot& slot = out_[sent_ % kOutSlots];
        if (!Mover::is_done(slot.ticket)) break;
        const Message& message = cut_.messages[sent_++];
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
        if (++source.placed < source.plan.messages.size()) continue;
        answer(source, epoch_);
    }
    post_receives(source);
    if (source.is_placed() && source.request != MPI_REQUEST_NULL)
        (void)test_request(source.request, "MPI_Isend", source.plan.rank);
    return moved;
}

void StagedPush::answer(Source& source, std::uint64_t epoch) {
    source.said = epoch;
    mpi::check(MPI_Isend(&source.said, 1, MPI_UINT64_T, source.plan.rank, kConfirmTag,
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
    // The source would wait for its answer.
    if (!is_right) answer(source, kRefused);
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

void StagedPush::look_for_confirmations() {
    for (Target& target : targets_) {
        if (target.is_done || !test_request(target.request, "MPI_Irecv", target.rank)) continue;
        if (target.said == kRefused)
            fail(fmt::format("{} refuses the push of epoch {}", context_.label(target.rank),
                             epoch_));
        if (target.said != epoch_)
            fail(fmt::format("{} confirms epoch {}, but {} is under way",
                             context_.label(target.rank), target.said, epoch_));
        target.is_done = true;
        completed_ += target.bytes;
        --targets_left_;
    }
}

std::vector<int> StagedPush::pending() const {
    if (state_ == State::Idle) return {};
    std::vector<int> peers;
    for (const Target& target : targets_)
        if (!target.is_done) peers.push_back(target.rank);
    for (const Source& source : sources_)
        if (!source.is_done()) peers.push_back(source.plan.rank);
    std::sort(peers.begin(), peers.end());
    return peers;
}

}  // namespace weightlift::transport::staged
