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
    void connect(const LinkTable&) override { WEIGHTLIFT_ENSURES(arena_ != nullptr); }

    [[nodiscard]] std::unique_ptr<Push> prepare(BoundPlan plan) override {
        WEIGHTLIFT_ENSURES(arena_ != nullptr);
        for (const Destination& destination : plan.destinations)
            static_cast<void>(expect_key<Key>(destination, "staged", context_.label));
        check_bounds(plan, arena_->bytes(), context_.label);
        const Bytes payload = payload_bytes(plan.sources.size());
        Cut cut = cut_for(plan, payload);
        auto incoming = tell_parts(plan, cut);
        agree_on_signals(plan, context_, "staged");
        return std::make_unique<StagedPush>(plan,
                                            StagedPush::Parts{.context = context_,
                                                              .arena = *arena_,
                                                              .slot = slot_bytes(payload),
                                                              .cut = std::move(cut),
                                                              .incoming = std::move(incoming)});
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

    /// A message must fit into a slot at both ends.
    [[nodiscard]] Cut cut_for(const BoundPlan& plan, Bytes payload) const {
        std::map<int, mpi::Bytestring> told;
        mpi::Writer out;
        out.put(payload);
        const mpi::Bytestring own = out.take();
        for (const int source : plan.sources) told.emplace(source, own);
        const std::vector<int> destinations = ranks_of(plan.destinations);
        const mpi::Deadline deadline(context_.timeout);
        const auto sizes =
            context_.world->exchange(told, destinations, kSlotTag, deadline, "exchange of staging");
        std::vector<Bytes> most;
        for (const int rank : destinations) {
            Bytes there = 0;
            mpi::Reader(sizes.at(rank), "size of staging").get(there);
            most.push_back(std::min(payload, there));
        }
        return cut_messages(plan.copies, most, plan.segments);
    }

    /// Every destination learns what its sources will send, and what they learn is checked.
    [[nodiscard]] std::vector<StagedPush::Parts::Incoming> tell_parts(const BoundPlan& plan,
                                                                      const Cut& cut) const {
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
            out.put_all(std::span<const Part>(parts[d]));
            out.put_all(std::span<const Message>(messages[d]));
            told.emplace(plan.destinations[d].rank, out.take());
        }
        const mpi::Deadline deadline(context_.timeout);
        const auto lists =
            context_.world->exchange(told, plan.sources, kPartsTag, deadline, "exchange of parts");
        std::vector<StagedPush::Parts::Incoming> incoming;
        for (const int source : plan.sources) {
            auto& from = incoming.emplace_back();
            from.rank = source;
            mpi::Reader in(lists.at(source), "list of parts");
            in.get_all(from.parts);
            in.get_all(from.messages);
            check(from);
        }
        return incoming;
    }

    /// Another rank's list: nothing of it may leave this rank's memory or the slots.
    void check(const StagedPush::Parts::Incoming& from) const {
        const auto refuse = [&] {
            throw TransportError(fmt::format("staged: {} would write outside of this rank's memory",
                                             context_.label(from.rank)));
        };
        for (const Message& message : from.messages)
            if (message.first > from.parts.size() ||
                message.count > from.parts.size() - message.first || message.bytes > kMostSlot)
                refuse();
        for (const Part& part : from.parts) {
            const Bytes most = arena_->bytes();
            if (part.rows == 0 || part.row_bytes > most || part.dst_offset > most ||
                part.at > kMostSlot || part.bytes() > kMostSlot || part.dst_pitch > most ||
                part.dst_offset + (part.rows - 1) * part.dst_pitch > most - part.row_bytes)
                refuse();
        }
    }

    Context context_;
    memory::Arena* arena_ = nullptr;
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
