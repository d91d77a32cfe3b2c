// What the groups of a push's steps carry.
#include <algorithm>

#include "push.hpp"

namespace weightlift::transport::nccl {

bool NcclPush::puts(const Pair& pair) const {
    return parts_.has_window && pair.rank != parts_.context.world->rank() &&
           pair.list.rounds.back().segments_end == 0;
}

void NcclPush::put(std::uint64_t number) {
    const auto has_some = [&](const Pair& to) {
        return puts(to) && to.has(to.posted, number) && !to.list.messages_of(to.posted).empty();
    };
    if (std::none_of(destinations_.begin(), destinations_.end(), has_some)) return;
    parts_.communicator->group([&](Group& group) {
        for (const Pair& to : destinations_) {
            if (!has_some(to)) continue;
            for (const Message& message : to.list.messages_of(to.posted))
                group.put(parts_.arena.data() + message.src_offset, message.bytes, to.index,
                          message.dst_offset, streams_->wire.get());
        }
    });
}

bool NcclPush::sends_epoch(const Pair& pair, std::size_t round) const {
    return pair.list.carries_epoch(round) || (puts(pair) && round + 1 == pair.list.rounds.size());
}

/// Asks for one signal of each message, and whether they are there. Nothing is being launched.
bool NcclPush::has_signals() {
    if (awaited_.empty()) return true;
    if (signals_ == Signals::Open) {
        parts_.communicator->group(
            [&](Group& group) { group.wait_for(awaited_, streams_->wire.get()); });
        signals_ = Signals::Asked;
        return false;
    }
    if (signals_ == Signals::Asked) {
        streams_->signalled.record(streams_->wire);
        signals_ = Signals::Recorded;
    }
    return streams_->signalled.is_done();
}

/// Between two ranks: the epoch sent back, the epoch, ranges, the packed message. In that order at
/// both ends.
void NcclPush::send_and_receive(std::uint64_t number) {
    constexpr Bytes kWord = sizeof(std::uint64_t);
    CUstream_st* const wire = streams_->wire.get();
    std::byte* const arena = parts_.arena.data();
    const auto exchange = [&](Group& group) {
        for (const Pair& source : sources_)
            if (number == source.list.answer_number())
                group.send(mail(0), kWord, source.index, wire);
        for (std::size_t d = 0; d < destinations_.size(); ++d)
            if (number == destinations_[d].list.answer_number())
                group.receive(mail(1 + sources_.size() + d), kWord, destinations_[d].index, wire);
        for (const Pair& to : destinations_) {
            const std::size_t round = to.posted;
            if (!to.has(round, number)) continue;
            if (sends_epoch(to, round)) group.send(mail(0), kWord, to.index, wire);
            if (to.is_local) continue;
            if (!puts(to))
                for (const Message& message : to.list.messages_of(round))
                    group.send(arena + message.src_offset, message.bytes, to.index, wire);
            if (const Bytes bytes = to.list.rounds[round].packed_bytes; bytes > 0)
                group.send(scratch_->data() + to.staging[round], bytes, to.index, wire);
        }
        for (std::size_t i = 0; i < sources_.size(); ++i) {
            const Pair& from = sources_[i];
            const std::size_t round = from.posted;
            if (!from.has(round, number)) continue;
            if (sends_epoch(from, round)) group.receive(mail(1 + i), kWord, from.index, wire);
            if (from.is_local) continue;
            if (!puts(from))
                for (const Message& message : from.list.messages_of(round))
                    group.receive(arena + message.dst_offset, message.bytes, from.index, wire);
            if (const Bytes bytes = from.list.rounds[round].packed_bytes; bytes > 0)
                group.receive(scratch_->data() + from.staging[round], bytes, from.index, wire);
        }
    };
    parts_.communicator->group(exchange);
}

/// All members go by the same ranges of the root's; where they lie here is this rank's own matter.
void NcclPush::broadcast(std::uint64_t number) {
    const int root = root_of(number);
    const bool is_root = root == parts_.context.world->rank();
    const std::vector<Pair>& pairs = is_root ? destinations_ : sources_;
    const auto pair = std::find_if(pairs.begin(), pairs.end(),
                                   [&](const Pair& one) { return one.has(one.posted, number); });
    WEIGHTLIFT_ENSURES(pair != pairs.end());
    Communicator& communicator = *roots_.at(root);
    communicator.group([&](Group& group) {
        for (const Message& message : pair->list.messages_of(pair->posted))
            group.broadcast(
                parts_.arena.data() + (is_root ? message.src_offset : message.dst_offset),
                message.bytes, communicator.index_of(root), streams_->wire.get());
    });
}

}  // namespace weightlift::transport::nccl
