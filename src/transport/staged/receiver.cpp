#include "receiver.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace weightlift::transport::staged {

Receiver::Receiver(const Context& context, const Mover& mover, std::vector<Incoming> incoming,
                   std::unique_ptr<Staging> staging, Bytes slot)
    : context_(context),
      mover_(mover),
      requests_(context),
      staging_(std::move(staging)),
      slot_(slot) {
    std::byte* next = staging_->data();
    for (Incoming& from : incoming) {
        if (from.rank == context_.world->rank()) own_ = sources_.size();
        const Ring ring(std::exchange(next, next + Ring::bytes(slot)), slot);
        Source& source = sources_.emplace_back(Source{.plan = std::move(from), .ring = ring});
        for (std::size_t i = 0; i < kInSlots; ++i)
            source.slots.push_back({.at = ring.slot(i), .ticket = mover_.make_ticket()});
    }
}

void Receiver::start(std::uint64_t epoch) {
    former_ = std::exchange(epoch_, epoch);
    left_ = sources_.size();
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        Source& source = sources_[i];
        source.posted = source.filled = source.taken = source.placed = 0;
        source.signals = 0;
        source.said = {};
        if (i != own_ && !source.plan.is_shared) post_receives(source);
    }
}

void Receiver::receive(Bytes budget) {
    left_ = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        if (i != own_) budget -= std::min(budget, receive(sources_[i], budget));
        if (!sources_[i].is_done()) ++left_;
    }
}

Bytes Receiver::receive(Source& source, Bytes budget) {
    Bytes moved = 0;
    while (moved < budget && has_next(source)) {
        const Message& message = source.plan.messages[source.taken];
        const Slot& slot = source.slots[source.taken++ % kInSlots];
        const std::byte* const payload = source.plan.is_shared ? slot.at : slot.at + sizeof(Header);
        mover_.scatter({source.plan.parts.data() + message.first, message.count}, payload,
                       slot.ticket);
        moved += message.bytes;
        settle(source);  // at once: its source fills the slot while the next one is emptied
    }
    settle(source);
    return moved;
}

void Receiver::settle(Source& source) {
    while (source.placed < source.taken &&
           Mover::is_done(source.slots[source.placed % kInSlots].ticket))
        source.signals = source.plan.messages[source.placed++].signals;
    if (!source.plan.is_shared) post_receives(source);
    answer(source);
}

bool Receiver::has_next(Source& source) {
    if (source.plan.is_shared) {
        if (source.taken == source.filled) look_at_ring(source);
        return source.taken < source.filled;
    }
    Slot& slot = source.slots[source.taken % kInSlots];
    MPI_Status status;
    if (source.taken == source.posted ||
        !requests_.test(slot.request, "MPI_Irecv", source.plan.rank, epoch_, &status))
        return false;
    check(source, slot, status);
    return true;
}

void Receiver::look_at_ring(Source& source) {
    const Progress told = source.ring.filled();
    if (told.epoch == former_) return;  // nothing of this push yet
    const auto peer = [&] { return context_.label(source.plan.rank); };
    if (told.epoch != epoch_) {
        refuse(source);
        fail(fmt::format("{} has notified epoch {}, but {} is under way", peer(), told.epoch,
                         epoch_));
    }
    const std::size_t most = std::min(source.placed + kInSlots, source.plan.messages.size());
    if (told.messages < source.filled || told.messages > most) {
        refuse(source);
        fail(
            fmt::format("{} has filled {} slots in the push of epoch {}, but had {} and may fill "
                        "{}",
                        peer(), told.messages, epoch_, source.filled, most));
    }
    source.filled = told.messages;
}

void Receiver::check(Source& source, const Slot& slot, const MPI_Status& status) {
    const Message& message = source.plan.messages[source.taken];
    const auto& header = *reinterpret_cast<const Header*>(slot.at);
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    const auto peer = [&] { return context_.label(source.plan.rank); };
    const bool is_of_push = static_cast<Bytes>(bytes) >= sizeof(Header) && header.epoch == epoch_;
    const bool is_right = is_of_push && header.index == message.index &&
                          static_cast<Bytes>(bytes) == sizeof(Header) + message.bytes;
    if (!is_right) refuse(source);
    if (!is_of_push)
        fail(fmt::format("{} has notified epoch {}, but {} is under way", peer(), header.epoch,
                         epoch_));
    if (!is_right)
        fail(fmt::format("{} has sent {} bytes as message {} of its push, instead of {} as {}",
                         peer(), bytes, header.index, sizeof(Header) + message.bytes,
                         message.index));
}

void Receiver::post_receives(Source& source) {
    const std::size_t end = std::min(source.placed + kInSlots, source.plan.messages.size());
    for (; source.posted < end; ++source.posted) {
        Slot& slot = source.slots[source.posted % kInSlots];
        requests_.receive(slot.at, slot_, source.plan.rank, kDataTag, slot.request);
    }
}

Answer Receiver::arrive_here(const Message& message) {
    Source& source = sources_[*own_];
    source.signals = message.signals;
    return source.said = {epoch_, ++source.placed, source.signals};
}

void Receiver::answer(Source& source) {
    const Answer answer{epoch_, source.placed, source.signals};
    if (source.plan.is_shared) {
        if (source.placed == source.said.messages) return;
        source.said = answer;
        source.ring.tell_placed(
            {static_cast<std::uint32_t>(epoch_), static_cast<std::uint32_t>(source.placed)});
        return;
    }
    if (source.request != MPI_REQUEST_NULL &&
        !requests_.test(source.request, "MPI_Isend", source.plan.rank, epoch_))
        return;
    const bool is_last =
        source.placed == source.plan.messages.size() && source.said.messages < source.placed;
    if (!is_last && source.said.segments == source.signals) return;
    source.said = answer;
    requests_.send(&source.said, sizeof(Answer), source.plan.rank, kConfirmTag, source.request);
}

void Receiver::refuse(Source& source) {
    if (source.plan.is_shared) {
        source.ring.tell_placed(kRefusal);
        return;
    }
    static const Answer refusal{kRefused, 0, 0};  // the last one may still be on its way
    if (source.request != MPI_REQUEST_NULL) MPI_Request_free(&source.request);
    requests_.send(&refusal, sizeof refusal, source.plan.rank, kConfirmTag, source.request);
}

void Receiver::list_pending(std::vector<int>& ranks) const {
    for (const Source& source : sources_)
        if (!source.is_done()) ranks.push_back(source.plan.rank);
}

bool Receiver::let_go() {
    bool is_used = false;
    for (Source& source : sources_) {
        for (Slot& slot : source.slots)
            if (staged::let_go(slot.request, Side::Receive)) is_used = true;
        if (staged::let_go(source.request, Side::Send)) is_used = true;
    }
    return is_used;
}

}  // namespace weightlift::transport::staged
