#include "sender.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace weightlift::transport::staged {

Sender::Sender(const BoundPlan& plan, const Context& context, const Mover& mover, Cut cut,
               std::vector<std::unique_ptr<PeerRing>> rings, std::unique_ptr<Staging> staging,
               Bytes slot)
    : context_(context),
      mover_(mover),
      requests_(context),
      cut_(std::move(cut)),
      staging_(std::move(staging)) {
    std::byte* next = staging_ ? staging_->data() : nullptr;
    for (std::size_t i = 0; i < kOutSlots && !plan.destinations.empty(); ++i) {
        Slot& out = slots_.emplace_back(Slot{.ticket = mover_.make_ticket()});
        if (staging_) out.at = std::exchange(next, next + slot);
    }
    for (std::size_t d = 0; d < plan.destinations.size(); ++d) {
        const int rank = plan.destinations[d].rank;
        targets_.push_back(
            {.rank = rank, .ring = std::move(rings[d]), .is_own = rank == context_.world->rank()});
    }
    for (const Message& message : cut_.messages) {
        Target& target = targets_[message.destination];
        target.bytes += message.bytes;
        target.signals.push_back(message.signals);
    }
    for (const Segment& segment : plan.segments) {
        Target& target = targets_[segment.destination];
        segments_.push_back({segment.destination, ++target.segments});
    }
}

void Sender::start(std::uint64_t epoch) {
    former_ = std::exchange(epoch_, epoch);
    moved_ = sent_ = allowed_ = placed_ = 0;
    left_ = targets_.size();
    for (Target& target : targets_) {
        target.last = {};
        if (!target.is_own && !target.ring) listen_to(target);
    }
}

void Sender::allow(std::size_t end) {
    WEIGHTLIFT_ENSURES(allowed_ <= end && end <= segments_.size());
    allowed_ = end;
}

Bytes Sender::send(Bytes budget, Receiver& here) {
    for (Slot& slot : slots_)
        if (slot.request != MPI_REQUEST_NULL) {
            const Message& message = cut_.messages[slot.message];
            if (requests_.test(slot.request, "MPI_Isend", targets_[message.destination].rank,
                               epoch_))
                slot.is_taken = false;
        }
    Bytes moved = 0;
    hand_over(here);
    // Slots are taken in turn, so that messages leave in the order in which they are moved.
    while (moved_ < cut_.messages.size() && cut_.messages[moved_].needs <= allowed_ &&
           moved < budget) {
        const Message& message = cut_.messages[moved_];
        const Target& target = targets_[message.destination];
        Slot& slot = slots_[moved_ % kOutSlots];
        if (slot.is_taken || (target.ring && message.index >= target.last.messages + kInSlots))
            break;
        const std::span parts(cut_.parts.data() + message.first, message.count);
        if (target.is_own) {
            mover_.place(parts, slot.ticket);
        } else if (target.ring) {
            mover_.gather(parts, target.ring->ring().slot(message.index), slot.ticket);
        } else {
            *reinterpret_cast<Header*>(slot.at) = {.epoch = epoch_, .index = message.index};
            mover_.gather(parts, slot.at + sizeof(Header), slot.ticket);
        }
        slot.is_taken = true;
        slot.message = moved_++;
        moved += message.bytes;
        hand_over(here);  // at once: its destination works while the next one is gathered
    }
    return moved;
}

void Sender::hand_over(Receiver& here) {
    for (; sent_ < moved_; ++sent_) {
        Slot& slot = slots_[sent_ % kOutSlots];
        if (!Mover::is_done(slot.ticket)) return;
        const Message& message = cut_.messages[sent_];
        Target& target = targets_[message.destination];
        if (target.is_own) {
            take(target, here.arrive_here(message));
        } else if (target.ring) {
            target.ring->ring().tell_filled(
                {static_cast<std::uint32_t>(epoch_), message.index + 1});
        } else {
            requests_.send(slot.at, sizeof(Header) + message.bytes, target.rank, kDataTag,
                           slot.request);
            continue;
        }
        slot.is_taken = false;
    }
}

void Sender::look() {
    for (Target& target : targets_) {
        if (target.is_own || target.is_done() || !hear(target)) continue;
        const Answer& said = target.said;
        const auto peer = [&] { return context_.label(target.rank); };
        if (said.epoch == kRefused)
            fail(fmt::format("{} refuses the push of epoch {}", peer(), epoch_));
        if (said.epoch != epoch_)
            fail(fmt::format("{} confirms epoch {}, but {} is under way", peer(), said.epoch,
                             epoch_));
        const bool is_last = said.messages == target.signals.size();
        if (said.messages <= target.last.messages || said.messages > target.signals.size() ||
            said.segments < target.last.segments || said.segments > target.segments ||
            (is_last && said.segments < target.segments))
            fail(fmt::format("{} confirms {} messages and {} segments of {} and {}", peer(),
                             said.messages, said.segments, target.signals.size(), target.segments));
        take(target, said);
        if (!target.ring && !is_last) listen_to(target);
    }
    while (placed_ < segments_.size() &&
           segments_[placed_].count <= targets_[segments_[placed_].target].last.segments)
        ++placed_;
}

bool Sender::hear(Target& target) {
    if (!target.ring) return requests_.test(target.request, "MPI_Irecv", target.rank, epoch_);
    const Progress placed = target.ring->ring().placed();
    if (placed == kRefusal) {
        target.said = {kRefused, 0, 0};
        return true;
    }
    if (placed.epoch == former_ ||
        (placed.epoch == epoch_ && placed.messages == target.last.messages))
        return false;
    const bool is_known = placed.messages > 0 && placed.messages <= target.signals.size();
    target.said = {placed.epoch, placed.messages,
                   is_known ? target.signals[placed.messages - 1] : 0};
    return true;
}

void Sender::take(Target& target, const Answer& answer) {
    target.last = answer;
    if (!target.is_done()) return;
    completed_ += target.bytes;
    --left_;
}

void Sender::listen_to(Target& target) {
    requests_.receive(&target.said, sizeof(Answer), target.rank, kConfirmTag, target.request);
}

bool Sender::is_done() const {
    return left_ == 0 && std::none_of(slots_.begin(), slots_.end(),
                                      [](const Slot& slot) { return slot.is_taken; });
}

void Sender::list_pending(std::vector<int>& ranks) const {
    for (const Target& target : targets_)
        if (!target.is_done()) ranks.push_back(target.rank);
}

bool Sender::let_go() {
    bool is_used = false;
    for (Slot& slot : slots_)
        if (staged::let_go(slot.request, Side::Send)) is_used = true;
    for (Target& target : targets_)
        if (staged::let_go(target.request, Side::Receive)) is_used = true;
    return is_used;
}

}  // namespace weightlift::transport::staged
