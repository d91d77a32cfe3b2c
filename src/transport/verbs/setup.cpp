// What a push prepares once: its requests, by queue pair, and staging on both sides.
#include <algorithm>
#include <map>

#include "../ranks.hpp"
#include "push.hpp"

namespace weightlift::transport::verbs {
namespace {

constexpr int kParcelTag = 31012;
constexpr int kStagingTag = 31013;
constexpr Bytes kBatchBytes = 8 * MiB;

}  // namespace

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
    for (const Destination& destination : plan.destinations) {
        const Peer& peer = *lent_.connections.find(destination.rank);
        rules.dst_piece.push_back(peer.offer.region.piece);
        rules.slot = std::min(rules.slot, peer.hello.slot);
        auto& channels = rates.emplace_back();
        const auto target = static_cast<std::uint32_t>(targets_.size());
        targets_.push_back({.rank = destination.rank, .first_sender = senders_.size()});
        for (const std::uint32_t id : peer.outgoing) {
            Channel& channel = lent_.connections.channel(id);
            index_of_channel_[id] = static_cast<std::int32_t>(senders_.size());
            channels.push_back(channel.rate);
            rules.sge = std::min(rules.sge, static_cast<std::uint64_t>(channel.pair->shape().sge));
            senders_.emplace_back(channel, target, std::min(kBatchBytes, window_));
        }
        targets_.back().senders = channels.size();
    }
    if (plan.segments.empty()) {
        add(cut_copies(plan.copies, rules), rates, {});
        return;
    }
    std::vector<Request> requests;
    std::vector<std::size_t> ends;  // of segments in requests
    std::size_t begin = 0;
    for (const auto& [end, destination, round] : plan.segments) {
        const std::span copies = std::span(plan.copies).subspan(begin, end - begin);
        const std::vector<Request> cut = cut_copies(copies, rules);
        requests.insert(requests.end(), cut.begin(), cut.end());
        ends.push_back(requests.size());
        segments_.push_back({destination, targets_[destination].segments++});
        begin = end;
    }
    add(requests, rates, ends);
}

/// Deals the requests to the senders; after each segment, all of its target's send a signal.
void VerbsPush::add(std::span<const Request> requests, std::span<const std::vector<double>> rates,
                    std::span<const std::size_t> ends) {
    const std::vector<std::uint32_t> dealt = deal_requests(requests, rates);
    std::size_t next = 0;
    for (std::size_t i = 0; i <= requests.size(); ++i) {
        for (; next < ends.size() && ends[next] == i; ++next)
            for (Sender& sender : senders_of(targets_[segments_[next].target]))
                sender.add({.destination = segments_[next].target, .is_signal = true});
        if (i < requests.size())
            senders_of(targets_[requests[i].destination])[dealt[i]].add(requests[i]);
    }
    // The first to post is the plan's first destination.
    if (!requests.empty()) turn_ = targets_[requests.front().destination].first_sender;
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
    for (std::size_t i = 0; i < plan.sources.size(); ++i) {
        const int source = plan.sources[i];
        const std::uint32_t signals = plan.signals.empty() ? 0 : plan.signals[i];
        const auto& channels = lent_.connections.find(source)->incoming;
        sources_.push_back({source, receivers_.size(), channels.size()});
        for (const std::uint32_t id : channels) {
            index_of_channel_[id] = static_cast<std::int32_t>(receivers_.size());
            const bool has_parcels = !parcels[next].empty();
            receivers_.emplace_back(
                lent_.connections.channel(id), std::move(parcels[next]),
                slots > 0 ? parcel_memory_->data() + slot * lent_.slot : nullptr, lent_.slot,
                lent_.arena.arena().data(), signals);
            if (has_parcels) slot += kSlots;
            ++next;
        }
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

}  // namespace weightlift::transport::verbs
