#include "push.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace weightlift::transport::staged {
namespace {

constexpr Bytes kSlice = 16 * MiB;

/// Slots to send messages from, where there is a destination that gets any.
std::unique_ptr<Staging> make_out_staging(const BoundPlan& plan, const StagedPush::Parts& parts) {
    for (std::size_t d = 0; d < plan.destinations.size(); ++d)
        if (!parts.rings[d] && plan.destinations[d].rank != parts.context.world->rank())
            return std::make_unique<Staging>(kOutSlots * parts.slot, parts.arena,
                                             parts.context.cuda.device);
    return nullptr;
}

}  // namespace

Bytes staging_bytes(std::size_t destinations, std::size_t sources, Bytes slot) {
    return (destinations > 0 ? kOutSlots * slot : 0) + sources * Ring::bytes(slot);
}

StagedPush::StagedPush(const BoundPlan& plan, Parts parts)
    : slice_(parts.context.slice == 0 ? kSlice : parts.context.slice),
      mover_(parts.arena, parts.context.cuda.device),
      receiver_(std::make_unique<Receiver>(parts.context, mover_, std::move(parts.incoming),
                                           std::move(parts.staging), parts.slot)) {
    auto out = make_out_staging(plan, parts);
    sender_ = std::make_unique<Sender>(plan, parts.context, mover_, std::move(parts.cut),
                                       std::move(parts.rings), std::move(out), parts.slot);
}

StagedPush::~StagedPush() {
    if (state_ == State::Idle) return;
    // Given up half-way, perhaps since a peer is lost: nothing here may wait for one. Engines end
    // what they have begun, also in slots of peers; what MPI may still read or write stays behind.
    try {
        mover_.finish();
    } catch (const Error& error) {
        fmt::print(stderr, "weightlift: {}\n", error.what());
    }
    if (sender_->let_go()) [[maybe_unused]]
        const Sender* const kept = sender_.release();
    if (receiver_->let_go()) [[maybe_unused]]
        const Receiver* const kept = receiver_.release();
}

void StagedPush::start(std::uint64_t /*version*/, std::uint64_t epoch) {
    WEIGHTLIFT_ENSURES(state_ == State::Idle && epoch > epoch_ && epoch < kRefusal.epoch);
    state_ = State::Dead;  // where the next throws
    epoch_ = epoch;
    sender_->start(epoch);
    receiver_->start(epoch);
    state_ = State::Running;
}

bool StagedPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    state_ = State::Dead;  // where the next throws
    const Bytes moved = sender_->send(slice_, *receiver_);
    receiver_->receive(slice_ - std::min(moved, slice_));
    sender_->look();
    const bool done = sender_->is_done() && receiver_->is_done();
    state_ = done ? State::Idle : State::Running;
    return done;
}

std::vector<int> StagedPush::pending() const {
    if (state_ == State::Idle) return {};
    std::vector<int> peers;
    sender_->list_pending(peers);
    receiver_->list_pending(peers);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
}

}  // namespace weightlift::transport::staged
