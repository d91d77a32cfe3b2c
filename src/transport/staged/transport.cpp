#include "transport.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "weightlift/mpi/message.hpp"

#include "../ranks.hpp"
#include "../region_key.hpp"
#include "../signals.hpp"
#include "push.hpp"

namespace weightlift::transport::staged {
namespace {

constexpr int kSlotTag = 31033;
constexpr int kPartsTag = 31034;
constexpr Bytes kMostSlot = 4 * MiB, kLeastSlot = 64 * KiB;
/// Of one destination, whatever the number of its sources; with more of them slots are smaller.
constexpr Bytes kMostStaging = 256 * MiB;

/// Messages carry their places with them; the key only proves that both sides mean the same memory.
using Key = RankKey<0x73746731>;  // "stg1"

class StagedTransport final : public Transport {
public:
    explicit StagedTransport(const Context& context) : context_(context) {}

    [[nodiscard]] std::string_view name() const override { return "staged"; }
    [[nodiscard]] const Capabilities& capabilities() const override {
        return staged::capabilities();
    }
    [[nodiscard]] Bytes scratch_bytes(const LinkTable& links) const override {
        return staging_bytes(links.destinations.size(), links.sources.size(),
                             slot_bytes(payload_bytes(links.sources.size())));
    }
    [[nodiscard]] RegionKey register_memory(memory::Arena& arena) override {
        WEIGHTLIFT_ENSURES(arena_ == nullptr);
        arena_ = &arena;
        return pack_key(Key{.rank = context_.world->rank(), .bytes = arena.bytes()});
    }
    [[nodiscard]] Attachment attachment() const override {
        Attachment attached;
        if (reached_.shared > 0 || !reached_.why_not.empty())
            attached.staging = fmt::format("{} of {} destinations reached through shared staging",
                                           reached_.shared, reached_.others);
        if (!reached_.why_not.empty())
            attached.staging += fmt::format(", others by messages ({})", reached_.why_not);
        return attached;
    }
    void connect(const LinkTable&) override { WEIGHTLIFT_ENSURES(arena_ != nullptr); }

    [[nodiscard]] std::unique_ptr<Push> prepare(BoundPlan plan) override {
        WEIGHTLIFT_ENSURES(arena_ != nullptr);
        for (const Destination& destination : plan.destinations)
            static_cast<void>(expect_key<Key>(destination, "staged", context_.label));
        check_bounds(plan, arena_->bytes(), context_.label);
        const Bytes payload = payload_bytes(plan.sources.size());
        const Bytes slot = slot_bytes(payload);
        auto staging = std::make_unique<Staging>(plan.sources.size() * Ring::bytes(slot), *arena_,
                                                 context_.cuda.device);
        std::vector<std::unique_ptr<PeerRing>> rings;
        const std::vector<Bytes> most = meet(plan, *staging, payload, rings);
        Cut cut = cut_messages(plan.copies, most, plan.segments);
        auto incoming = tell_parts(plan, cut, rings, payload);
        agree_on_signals(plan, context_, "staged");
        return std::make_unique<StagedPush>(plan, StagedPush::Parts{.context = context_,
                                                                    .arena = *arena_,
                                                                    .slot = slot,
                                                                    .cut = std::move(cut),
                                                                    .rings = std::move(rings),
                                                                    .incoming = std::move(incoming),
                                                                    .staging = std::move(staging)});
    }

private:
    /// Of one message to or from a rank with so many sources.
    [[nodiscard]] Bytes payload_bytes(std::size_t sources) const {
        Bytes payload = kMostSlot;
        if (sources > 0)
            payload = std::clamp(kMostStaging / (sources * kInSlots), kLeastSlot, kMostSlot);
        if (context_.max_message > 0) payload = std::min(payload, context_.max_message);
        return payload;
    }
    static Bytes slot_bytes(Bytes payload) {
        return sizeof(Header) + round_up(payload, sizeof(Header));
    }

    /// Destinations say where their slots are, and sources try to map them: `rings`, by
    /// destination, are those that both ends have. Returns, by destination, the payload of a
    /// message, which fits into a slot at both ends.
    [[nodiscard]] std::vector<Bytes> meet(const BoundPlan& plan, const Staging& staging,
                                          Bytes payload,
                                          std::vector<std::unique_ptr<PeerRing>>& rings) {
        const ProcessId owner = own_process();
        const Bytes slot = slot_bytes(payload);
        std::map<int, mpi::Bytestring> told;
        for (std::size_t i = 0; i < plan.sources.size(); ++i) {
            mpi::Writer out;
            out.put(payload);
            out.put(RingPlace{.owner = owner,
                              .file = staging.file(),
                              .offset = i * Ring::bytes(slot),
                              .slot = slot});
            told.emplace(plan.sources[i], out.take());
        }
        const std::vector<int> destinations = ranks_of(plan.destinations);
        const mpi::Deadline deadline(context_.timeout);
        const auto offers =
            context_.world->exchange(told, destinations, kSlotTag, deadline, "exchange of staging");
        reached_ = {};
        std::vector<Bytes> most;
        for (const int rank : destinations) {
            mpi::Reader in(offers.at(rank), "place of staging");
            Bytes there = 0;
            RingPlace place;
            in.get(there);
            in.get(place);
            rings.push_back(try_ring(place, rank));
            most.push_back(rings.back() ? there : std::min(payload, there));
        }
        return most;
    }

    /// Nobody, where other ranks shall not map this one's memory, or cannot.
    [[nodiscard]] ProcessId own_process() const {
        if (!context_.shares_staging) return {};
        try {
            return ProcessId::own(context_.world->rank());
        } catch (const TransportError&) {
            return {};
        }
    }

    /// Nothing where this rank cannot have it: then the pair meets by messages.
    [[nodiscard]] std::unique_ptr<PeerRing> try_ring(const RingPlace& place, int rank) {
        if (rank == context_.world->rank()) return nullptr;
        ++reached_.others;
        const std::string peer = context_.label(rank);
        try {
            const ProcessId own = own_process();
            if (place.owner.rank < 0 || own.rank < 0)
                throw TransportError("the staging of " + peer + " is kept apart");
            if (place.owner.boot_id != own.boot_id)
                throw TransportError(peer + " is on another host");
            auto ring =
                std::make_unique<PeerRing>(place, rank, peer, *arena_, context_.cuda.device);
            ++reached_.shared;
            return ring;
        } catch (const Error& error) {
            if (reached_.why_not.empty()) reached_.why_not = error.what();
            return nullptr;
        }
    }

    /// Every destination learns what its sources will send, and what they learn is checked.
    [[nodiscard]] std::vector<Incoming> tell_parts(
        const BoundPlan& plan, const Cut& cut, const std::vector<std::unique_ptr<PeerRing>>& rings,
        Bytes payload) const {
        std::vector<std::vector<Part>> parts(plan.destinations.size());
        std::vector<std::vector<Message>> messages(plan.destinations.size());
        for (Message message : cut.messages) {
            auto& list = parts[message.destination];
            const auto first = cut.parts.begin() + static_cast<std::ptrdiff_t>(message.first);
            message.first = list.size();
            list.insert(list.end(), first, first + static_cast<std::ptrdiff_t>(message.count));
            messages[message.destination].push_back(message);
        }
        std::map<int, mpi::Bytestring> told;
        for (std::size_t d = 0; d < parts.size(); ++d) {
            mpi::Writer out;
            out.put(static_cast<std::uint8_t>(rings[d] != nullptr));
            out.put_all(std::span<const Part>(parts[d]));
            out.put_all(std::span<const Message>(messages[d]));
            told.emplace(plan.destinations[d].rank, out.take());
        }
        const mpi::Deadline deadline(context_.timeout);
        const auto lists =
            context_.world->exchange(told, plan.sources, kPartsTag, deadline, "exchange of parts");
        std::vector<Incoming> incoming;
        for (const int source : plan.sources) {
            auto& from = incoming.emplace_back();
            from.rank = source;
            mpi::Reader in(lists.at(source), "list of parts");
            std::uint8_t is_shared = 0;
            in.get(is_shared);
            from.is_shared = is_shared != 0;
            in.get_all(from.parts);
            in.get_all(from.messages);
            check(from, payload);
        }
        return incoming;
    }

    /// Another rank's list: nothing of it may leave this rank's memory or the slots.
    void check(const Incoming& from, Bytes payload) const {
        const auto refuse = [&] {
            throw TransportError(fmt::format("staged: {} would write outside of this rank's memory",
                                             context_.label(from.rank)));
        };
        for (const Message& message : from.messages)
            if (message.first > from.parts.size() ||
                message.count > from.parts.size() - message.first || message.bytes > payload)
                refuse();
        for (const Part& part : from.parts) {
            const Bytes most = arena_->bytes();
            if (part.rows == 0 || part.rows > payload || part.row_bytes > std::min(most, payload) ||
                part.dst_offset > most || part.at > payload || part.bytes() > payload - part.at ||
                part.dst_pitch > most ||
                part.dst_offset + (part.rows - 1) * part.dst_pitch > most - part.row_bytes)
                refuse();
        }
    }

    Context context_;
    memory::Arena* arena_ = nullptr;
    /// By the push that was prepared last.
    struct Reached {
        std::size_t shared = 0, others = 0;  ///< destinations; all but this rank itself
        std::string why_not{};               ///< of the first that is not shared
    };
    Reached reached_;
};

}  // namespace

const Capabilities& capabilities() {
    static const Capabilities value{
        .host_memory = true, .cuda_memory = true, .needs_target_progress = true};
    return value;
}

std::unique_ptr<Transport> make(const Context& context) {
    return std::make_unique<StagedTransport>(context);
}

}  // namespace weightlift::transport::staged
