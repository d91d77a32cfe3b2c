#include "push.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "../ranks.hpp"

namespace weightlift::transport::verbs {
namespace {

constexpr int kParcelTag = 31012;
constexpr int kStagingTag = 31013;
constexpr Bytes kBatchBytes = 8 * MiB;
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

void VerbsPush::make_senders(const BoundPlan& plan, const RowRule& rows) {
    const VerbsOptions& options = lent_.context.verbs;
    CutRules rules{.chunk = options.chunk > 0 ? options.chunk : MiB,
                   .sge = ~std::uint64_t{0},
                   .slot = lent_.slot,
                   .src_piece = lent_.arena.piece(),
                   .dst_piece = {},
                   .packs = [&](Bytes row) { return rows.choose(row).packs; },
                   .unpacks = [&](Bytes row) { return rows.choose(row).unpacks; }};
    if (lent_.context.max_message > 0)
        rules.chunk = std::min(rules.chunk, lent_.context.max_message);
    rules.chunk = std::min({rules.chunk, GiB, window_});
    std::vector<std::vector<double>> rates;
    std::vector<std::size_t> first_sender;
    for (const Destination& destination : plan.destinations) {
        const Peer& peer = *lent_.connections.find(destination.rank);
        rules.dst_piece.push_back(peer.offer.region.piece);
        rules.slot = std::min(rules.slot, peer.hello.slot);
        first_sender.push_back(senders_.size());
        auto& channels = rates.emplace_back();
        const auto target = static_cast<std::uint32_t>(targets_.size());
        targets_.push_back({.rank = destination.rank});
        for (const std::uint32_t id : peer.outgoing) {
            Channel& channel = lent_.connections.channel(id);
            index_of_channel_[id] = static_cast<std::int32_t>(senders_.size());
            channels.push_back(channel.rate);
            rules.sge = std::min(rules.sge, static_cast<std::uint64_t>(channel.pair->shape().sge));
            senders_.emplace_back(channel, target, std::min(kBatchBytes, window_));
        }
    }
    const std::vector<Request> requests = cut_copies(plan.copies, rules);
    const std::vector<std::uint32_t> dealt = deal_requests(requests, rates);
    for (std::size_t i = 0; i < requests.size(); ++i)
        senders_[first_sender[requests[i].destination] + dealt[i]].add(requests[i]);
    // The first to post is the plan's first destination.
    if (!requests.empty()) turn_ = first_sender[requests.front().destination];
}

void VerbsPush::agree_on_parcels(const BoundPlan& plan) {
    const std::vector<int> to = ranks_of(plan.destinations);
    const auto told =
        exchange(lent_.context, to, plan.sources, kParcelTag, "exchange of parcels", [&](int rank) {
            mpi::Writer out;
            for (const std::uint32_t id : lent_.connections.find(rank)->outgoing)
                out.put_all(std::span<const Parcel>(
                    senders_[static_cast<std::size_t>(index_of_channel_[id])].parcels()));
            return out.take();
        });

    // Staging for channels that bring parcels; each has its slots.
    std::map<int, Bytes> first_slot;
    std::vector<std::vector<Parcel>> parcels;
    Bytes slots = 0;
    const auto prepare_staging = [&] {
        for (const auto& [rank, bytes] : told) {
            mpi::Reader in(bytes, "list of parcels");
            first_slot[rank] = slots;
            for (std::size_t i = 0; i < lent_.connections.find(rank)->incoming.size(); ++i) {
                in.get_all(parcels.emplace_back());
                check_parcels(parcels.back(), lent_.slot, lent_.arena.arena().bytes(),
                              lent_.context.label(rank));
                if (!parcels.back().empty()) slots += kSlots;
            }
        }
        if (slots == 0) return;
        parcel_memory_ = memory::make_host_arena(slots * lent_.slot);
        parcel_staging_ = stage(*parcel_memory_, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    };
    const auto replies = exchange(
        lent_.context, plan.sources, to, kStagingTag, "exchange of staging",
        [&](int rank) {
            RemoteMemory memory;
            if (slots > 0) memory = parcel_staging_.told();
            mpi::Writer out;
            out.put(first_slot[rank]);
            put(out, memory);
            return out.take();
        },
        prepare_staging);

    Bytes packing = 0;
    for (const Sender& sender : senders_)
        if (sender.packs()) packing += kSlots;
    if (packing > 0) {
        pack_memory_ = memory::make_host_arena(packing * lent_.slot);
        pack_staging_ = stage(*pack_memory_, IBV_ACCESS_LOCAL_WRITE);
    }
    packing = 0;
    for (const Destination& destination : plan.destinations) {
        const Peer& peer = *lent_.connections.find(destination.rank);
        mpi::Reader in(replies.at(destination.rank), "description of staging");
        Bytes slot_there = 0;
        in.get(slot_there);
        RemoteMemory there;
        get(in, there);
        for (const std::uint32_t id : peer.outgoing) {
            Sender& sender = senders_[static_cast<std::size_t>(index_of_channel_[id])];
            const int rail = lent_.connections.channel(id).rail;
            sender.seal({.arena = lent_.arena.local(rail),
                         .staging = sender.packs() ? pack_staging_.local(rail) : LocalMemory{},
                         .staging_offset = packing * lent_.slot,
                         .slot = lent_.slot,
                         .is_host_memory = lent_.arena.arena().kind() == memory::MemoryKind::Host,
                         .region = peer.offer.region,
                         .parcels = there,
                         .parcels_offset = slot_there * peer.hello.slot,
                         .parcels_slot = peer.hello.slot});
            if (sender.packs()) packing += kSlots;
            if (!sender.parcels().empty()) slot_there += kSlots;
        }
    }
    Bytes slot = 0;
    std::size_t next = 0;
    for (const int source : plan.sources)
        for (const std::uint32_t id : lent_.connections.find(source)->incoming) {
            index_of_channel_[id] = static_cast<std::int32_t>(receivers_.size());
            const bool has_parcels = !parcels[next].empty();
            receivers_.emplace_back(
                lent_.connections.channel(id), std::move(parcels[next]),
                slots > 0 ? parcel_memory_->data() + slot * lent_.slot : nullptr, lent_.slot,
                lent_.arena.arena().data());
            if (has_parcels) slot += kSlots;
            ++next;
        }
}

/// Registered with the devices in use.
Registered VerbsPush::stage(memory::Arena& memory, int access) const {
    Registered staging(lent_.devices, memory, access, 0, Registration::Auto, lent_.slot);
    for (std::uint32_t id = 0; id < lent_.connections.size(); ++id) {
        const auto rail = static_cast<std::size_t>(lent_.connections.channel(id).rail);
        staging.add(*lent_.devices[rail], rail);
    }
    return staging;
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
    has_flushed_ = false;
    visibility_time_.reset();
    post();
}

bool VerbsPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    bool is_done = false;
    try {
        poll();
        post();
        is_done = senders_left_ == 0 && receivers_left_ == 0 && is_visible();
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

bool VerbsPush::is_visible() {
    if (receivers_.empty() || lent_.visibility == Visibility::Nothing) return true;
    if (!has_flushed_) {
        has_flushed_ = true;
        arrived_ = mpi::Clock::now();
        if (lent_.visibility == Visibility::Flush) lent_.arena.arena().flush_remote_writes();
        if (lent_.visibility == Visibility::LoopbackRead) reads_left_ = lent_.loopback->start();
    }
    if (reads_left_ > 0) return false;
    if (!visibility_time_) visibility_time_ = mpi::Clock::now() - arrived_;
    return true;
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
        if (sender.is_posted()) continue;
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
