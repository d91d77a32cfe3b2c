#include "push.hpp"

#include <algorithm>
#include <array>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "../ranks.hpp"

namespace weightlift::transport::verbs {
namespace {

constexpr int kPolled = 32;       ///< completions taken by one call
constexpr int kMostPolled = 256;  ///< and by one test()
constexpr std::chrono::milliseconds kEventInterval{1};

}  // namespace

VerbsPush::VerbsPush(const BoundPlan& plan, const RowRule& rows, const Lent& lent)
    : lent_(lent), window_(plan.window == 0 ? ~Bytes{0} : plan.window) {
    index_of_channel_.assign(lent.connections.size(), -1);
    make_senders(plan, rows);
    agree_on_parcels(plan);
}

VerbsPush::~VerbsPush() {
    if (state_ == State::Idle) return;
    // Given up half-way: what is under way must not arrive in a later push.
    lent_.connections.fence();
    lent_.is_abandoned = true;
}

void VerbsPush::start(std::uint64_t /*version*/, std::uint64_t epoch) {
    WEIGHTLIFT_ENSURES(state_ == State::Idle);
    state_ = State::Running;
    epoch_ = epoch;
    for (Sender& sender : senders_) sender.start(epoch);
    for (Receiver& receiver : receivers_) receiver.start(epoch);
    for (Target& target : targets_) target.outstanding = 0;
    outstanding_ = 0;
    senders_left_ = senders_unposted_ = senders_.size();
    receivers_left_ = receivers_.size();
    for (Source& source : sources_) source.signals = source.reached = 0;
    allowed_ = placed_ = 0;
    has_signals_ = has_flushed_ = false;
    visibility_time_.reset();
    post();
}

void VerbsPush::allow(std::size_t end) {
    WEIGHTLIFT_ENSURES(end >= allowed_ && end <= segments_.size());
    for (; allowed_ < end; ++allowed_)
        for (Sender& sender : senders_of(targets_[segments_[allowed_].target]))
            sender.allow_segment();
}

bool VerbsPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    bool is_done = false;
    try {
        poll();
        post();
        is_done = is_visible(senders_left_ == 0 && receivers_left_ == 0);
        while (placed_ < allowed_ && is_placed(segments_[placed_])) ++placed_;
        const auto now = mpi::Clock::now();
        if (now - looked_ > kEventInterval) {
            looked_ = now;
            check_events();
        }
    } catch (...) {
        state_ = State::Dead;
        throw;
    }
    if (is_done) state_ = State::Idle;
    return is_done;
}

bool VerbsPush::is_visible(bool is_end) {
    if (receivers_.empty()) return is_end;
    if (reads_left_ > 0) return false;
    if (is_reading_) show();
    if (!has_signals_ && (!is_end || has_flushed_)) return is_end;
    has_signals_ = false;
    has_flushed_ = is_end;
    for (Source& source : sources_) source.reached = reached_by(source);
    arrived_ = mpi::Clock::now();
    if (lent_.visibility == Visibility::Flush) lent_.arena.arena().flush_remote_writes();
    if (lent_.visibility == Visibility::LoopbackRead) {
        reads_left_ = lent_.loopback->start();
        is_reading_ = true;
        return false;
    }
    show();
    return is_end;
}

/// What had been reached when it began can be seen now.
void VerbsPush::show() {
    is_reading_ = false;
    for (Source& source : sources_) source.signals = source.reached;
    if (lent_.visibility != Visibility::Nothing)
        visibility_time_ =
            visibility_time_.value_or(std::chrono::nanoseconds(0)) + (mpi::Clock::now() - arrived_);
}

std::uint32_t VerbsPush::reached_by(const Source& source) const {
    std::uint32_t least = ~std::uint32_t{0};
    for (std::size_t i = 0; i < source.receivers; ++i)
        least = std::min(least, receivers_[source.first_receiver + i].signals());
    return least;
}

bool VerbsPush::is_placed(const Part& segment) const {
    const Target& target = targets_[segment.target];
    for (std::size_t i = 0; i < target.senders; ++i)
        if (senders_[target.first_sender + i].signals_done() <= segment.index) return false;
    // What a rank writes to itself it may go on to read: an answer alone does not say that it can.
    if (target.rank != lent_.context.world->rank()) return true;
    const auto self = std::find_if(sources_.begin(), sources_.end(),
                                   [&](const Source& s) { return s.rank == target.rank; });
    return self != sources_.end() && self->signals > segment.index;
}

/// Each queue pair in turn, one batch at a time, so that destinations get their bytes in the plan's
/// rotation. Not much more than one destination's window is under way in all: a source that has
/// posted to everybody at once would write to everybody at once.
void VerbsPush::post() {
    std::size_t blocked = 0;
    while (senders_unposted_ > 0 && blocked < senders_.size()) {
        Sender& sender = senders_[turn_];
        Target& target = targets_[sender.target()];
        turn_ = turn_ + 1 == senders_.size() ? 0 : turn_ + 1;
        ++blocked;
        if (sender.is_posted() || sender.is_held()) continue;
        const Bytes bytes = sender.next_bytes();
        // A batch counts from its first request on: a queue may take it in parts.
        const bool was_begun = sender.has_begun();
        if (!was_begun && !has_room(target, bytes)) continue;
        const bool is_posted = sender.post();
        if (!was_begun && (is_posted || sender.has_begun())) {
            target.outstanding += bytes;
            outstanding_ += bytes;
        }
        if (!is_posted) continue;
        if (sender.is_posted()) --senders_unposted_;
        blocked = 0;
    }
}

bool VerbsPush::has_room(const Target& target, Bytes bytes) const {
    const auto fits = [bytes](Bytes used, Bytes most) {
        return used == 0 || (used < most && bytes <= most - used);
    };
    const Bytes in_all = window_ > ~Bytes{0} / 2 ? window_ : 2 * window_;
    return fits(target.outstanding, window_) && fits(outstanding_, in_all);
}

void VerbsPush::poll() {
    std::array<ibv_wc, kPolled> completions{};
    std::optional<ibv_wc> failed;
    int taken = 0;
    for (const auto& device : lent_.devices)
        for (const QueuePtr& queue : device->queues())
            while (taken < kMostPolled) {
                const int n = ibv_poll_cq(queue.get(), kPolled, completions.data());
                if (n < 0)
                    throw TransportError("verbs: cannot poll the queue of " + device->label());
                if (n == 0) break;
                taken += n;
                for (int i = 0; i < n; ++i) {
                    const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
                    if (completion.status == IBV_WC_SUCCESS) {
                        if (!failed) handle(completion);
                        continue;
                    }
                    // The first that is not a mere consequence of another says what happened.
                    if (!failed || (failed->status == IBV_WC_WR_FLUSH_ERR &&
                                    completion.status != IBV_WC_WR_FLUSH_ERR))
                        failed = completion;
                }
            }
    if (failed) fail_completion(*failed);
}

void VerbsPush::handle(const ibv_wc& completion) {
    if (lent_.connections.take(completion)) return;
    const WorkId id = unpack_id(completion.wr_id);
    if (id.kind == Kind::Read) {
        --reads_left_;
        return;
    }
    Channel& channel = lent_.connections.channel(id.channel);
    const std::int32_t index = index_of_channel_[id.channel];
    if (index < 0)
        throw TransportError(fmt::format("verbs: {} writes, but has no part in this push",
                                         lent_.context.label(channel.peer)));
    if (id.kind == Kind::Send) {
        Sender& sender = senders_[static_cast<std::size_t>(index)];
        const Bytes bytes = sender.complete(id.index);
        targets_[sender.target()].outstanding -= bytes;
        outstanding_ -= bytes;
        completed_ += bytes;
        lent_.devices[static_cast<std::size_t>(channel.rail)]->completed += bytes;
        if (sender.is_done()) --senders_left_;
        return;
    }
    if ((completion.wc_flags & IBV_WC_WITH_IMM) == 0)
        throw TransportError(fmt::format("verbs: {} has sent something that is no notice",
                                         lent_.context.label(channel.peer)));
    Receiver& receiver = receivers_[static_cast<std::size_t>(index)];
    const auto arrival =
        receiver.accept(ntohl(completion.imm_data), lent_.context.label(channel.peer));
    channel.pair->post_receive(completion.wr_id);
    if (arrival == Receiver::Arrival::Notice) {
        --receivers_left_;
        return;
    }
    if (arrival == Receiver::Arrival::Signal) has_signals_ = true;
    ++channel.owed;
    lent_.connections.answer(channel);
}

void VerbsPush::check_events() const {
    for (const auto& device : lent_.devices)
        device->check_events([&](const ibv_qp* pair) -> std::string {
            std::vector<std::string> peers;
            if (pair == nullptr)
                for (const int rank : pending()) peers.push_back(lent_.context.label(rank));
            for (std::uint32_t id = 0; pair != nullptr && id < lent_.connections.size(); ++id) {
                const Channel& channel = lent_.connections.channel(id);
                if (channel.pair->get() == pair) peers.push_back(lent_.context.label(channel.peer));
            }
            if (peers.empty()) return "";
            return fmt::format(" ({} {})", pair == nullptr ? "not done with" : "queue pair with",
                               name_some(peers));
        });
}

void VerbsPush::fail_completion(const ibv_wc& completion) {
    // A receive that was flushed does not say why; the device's own words may.
    if (completion.status == IBV_WC_WR_FLUSH_ERR) check_events();
    const WorkId id = unpack_id(completion.wr_id);
    if (id.kind == Kind::Read)
        throw TransportError(fmt::format(
            "verbs: the read on {} that makes arrived bytes visible failed in the push of epoch "
            "{}: {}",
            lent_.devices[id.index]->label(), epoch_, ibv_wc_status_str(completion.status)));
    const Channel& channel = lent_.connections.channel(id.channel);
    const std::string peer = lent_.context.label(channel.peer);
    const std::int32_t index = index_of_channel_[id.channel];
    std::string what = id.kind == Kind::Receive ? "a receive" : "a credit";
    if (id.kind == Kind::Send && index >= 0)
        what = "a " + senders_[static_cast<std::size_t>(index)].describe(id.index);
    throw TransportError(fmt::format(
        "verbs: {} {} {} on {} failed in the push of epoch {}: {} (vendor error 0x{:x})", what,
        channel.is_incoming && id.kind == Kind::Receive ? "from" : "to", peer,
        lent_.devices[static_cast<std::size_t>(channel.rail)]->label(), epoch_,
        ibv_wc_status_str(completion.status), completion.vendor_err));
}

std::vector<int> VerbsPush::pending() const {
    if (state_ == State::Idle) return {};
    std::vector<int> peers;
    for (const Sender& sender : senders_)
        if (!sender.is_done()) peers.push_back(targets_[sender.target()].rank);
    for (const Receiver& receiver : receivers_)
        if (!receiver.is_done()) peers.push_back(receiver.peer());
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
}

}  // namespace weightlift::transport::verbs
