#include "transport.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "weightlift/cuda/device.hpp"
#include "weightlift/memory/cuda_arena.hpp"

#include "../region_key.hpp"
#include "../signals.hpp"
#include "communicator.hpp"
#include "neighbourhood.hpp"
#include "push.hpp"

namespace weightlift::transport::nccl {
namespace {

constexpr int kLinksTag = 31020;
/// A message between two GPUs costs some microseconds by itself, which is about the time of these
/// bytes over NVLink 4. What is shorter is packed.
constexpr Bytes kDirect = MiB;
/// Of GPU memory, for packed messages to and from all peers.
constexpr Bytes kStaging = 512 * MiB;
constexpr Bytes kLeastSlot = 256 * KiB, kMostSlot = 64 * MiB;

/// A packed message to or from one of so many peers; two are under way.
Bytes slot_among(std::size_t peers) {
    return std::clamp(kStaging / (2 * std::max<std::size_t>(peers, 1)), kLeastSlot, kMostSlot);
}

using Key = RankKey<0x6e63636c>;  // "nccl"

class NcclTransport final : public Transport {
public:
    explicit NcclTransport(const Context& context)
        : context_(context),
          arrived_(static_cast<std::size_t>(context.world->size())),
          neighbourhood_(context.world->rank(), {}) {}

    [[nodiscard]] std::string_view name() const override { return "nccl"; }
    [[nodiscard]] const Capabilities& capabilities() const override { return nccl::capabilities(); }
    [[nodiscard]] Bytes scratch_bytes(const LinkTable&) const override { return 0; }
    [[nodiscard]] Bytes device_scratch_bytes(const LinkTable& links) const override {
        const std::size_t peers = links.destinations.size() + links.sources.size();
        return 2 * peers * slot_among(peers);
    }

    [[nodiscard]] RegionKey register_memory(memory::Arena& arena) override {
        WEIGHTLIFT_ENSURES(arena_ == nullptr);
        if (arena.kind() != memory::MemoryKind::Cuda)
            throw TransportError("nccl: this rank's memory is not of a GPU (--memory cuda)");
        arena_ = &arena;
        device_ = memory::share_cuda_arena(arena).device;
        return pack_key(Key{context_.world->rank(), 0, arena.bytes()});
    }

    void connect(const LinkTable& links) override {
        WEIGHTLIFT_ENSURES(arena_ != nullptr);
        communicator_.reset();
        roots_.clear();
        meet(links);
        if (links.destinations.empty() && links.sources.empty()) return;
        communicator_ = std::make_shared<Communicator>(context_, neighbourhood_.members(), device_);
        if (has_window())
            communicator_->open_window(arena_->data(),
                                       std::max(arena_->bytes(), context_.cuda.at_least));
        else
            communicator_->register_memory(arena_->data(), arena_->bytes());
    }

    [[nodiscard]] std::unique_ptr<Push> prepare(BoundPlan plan) override {
        WEIGHTLIFT_ENSURES(arena_ != nullptr);
        // Before a peer waits for what this rank has to say.
        check_bounds(plan, arena_->bytes(), context_.label);
        std::vector<MessageRules> rules;
        for (const Destination& destination : plan.destinations) {
            (void)expect_key<Key>(destination, "nccl", context_.label);
            rules.push_back(rules_for(destination.rank));
        }
        auto push = std::make_unique<NcclPush>(
            plan, rules,
            NcclPush::Parts{.communicator = communicator_,
                            .communicator_of =
                                [this](int root, const auto& members) {
                                    return communicator_of(root, members);
                                },
                            .has_window = has_window(),
                            .arena = *arena_,
                            .device = device_,
                            .arrived = arrived_,
                            .context = context_});
        broadcast_bytes_ = push->broadcast_bytes();
        agree_on_signals(plan, context_, "nccl");
        return push;
    }

    [[nodiscard]] Attachment attachment() const override {
        if (!communicator_) return {};
        Attachment attached;
        attached.registration = has_window() ? "ncclCommWindowRegister" : "ncclCommRegister";
        attached.rows = fmt::format("ranges below {} are packed", human_bytes(kDirect));
        if (has_window()) attached.rows += ", longer ones put by ncclPutSignal";
        if (broadcast_bytes_ > 0)
            attached.rows +=
                fmt::format("; {} of a push by ncclBroadcast", human_bytes(broadcast_bytes_));
        return attached;
    }

private:
    [[nodiscard]] bool has_window() const { return context_.nccl.mode == NcclMode::Put; }

    /// Kept until the next `connect`: a member may still read what another is done with.
    [[nodiscard]] std::shared_ptr<Communicator> communicator_of(int root,
                                                                const std::vector<int>& members) {
        std::shared_ptr<Communicator>& one = roots_[{root, members}];
        if (!one) {
            auto made = std::make_shared<Communicator>(context_, members, device_);
            made->register_memory(arena_->data(), arena_->bytes());
            one = std::move(made);
        }
        return one;
    }

    /// Finds out who belongs to the same communicator.
    void meet(const LinkTable& links) {
        std::vector<int> linked;
        for (const auto* side : {&links.destinations, &links.sources})
            for (const Link& link : *side) linked.push_back(link.rank);
        const int rank = context_.world->rank();
        neighbourhood_ = Neighbourhood(rank, std::move(linked));
        const mpi::Deadline deadline(context_.timeout);
        const std::vector<int> peers = neighbourhood_.neighbours(rank);
        for (int round = 0;; ++round) {
            const auto needed = neighbourhood_.rounds();
            if (needed && round >= *needed) return;
            std::map<int, mpi::Bytestring> outgoing;
            const mpi::Bytestring told = neighbourhood_.told();
            for (const int peer : peers) outgoing.emplace(peer, told);
            for (const auto& [peer, bytes] : context_.world->exchange(
                     outgoing, peers, kLinksTag, deadline, "exchange of linked ranks"))
                neighbourhood_.hear(bytes);
        }
    }

    [[nodiscard]] MessageRules rules_for(int destination) const {
        const auto slot_of = [this](int rank) {
            // One peer counts twice where it is both destination and source.
            return slot_among(2 * neighbourhood_.neighbours(rank).size());
        };
        MessageRules rules{.direct = kDirect,
                           .slot = std::min(slot_of(context_.world->rank()), slot_of(destination))};
        for (const Bytes limit : {context_.slice, context_.max_message})
            if (limit > 0) {
                rules.slot = std::min(rules.slot, limit);
                rules.message = std::min(rules.message, limit);
            }
        return rules;
    }

    Context context_;
    memory::Arena* arena_ = nullptr;
    int device_ = 0;
    std::vector<std::uint64_t> arrived_;
    Neighbourhood neighbourhood_;
    std::shared_ptr<Communicator> communicator_;
    /// Of roots of broadcasts, with their members.
    std::map<std::pair<int, std::vector<int>>, std::shared_ptr<Communicator>> roots_;
    Bytes broadcast_bytes_ = 0;  ///< of the last push prepared
};

}  // namespace

const Capabilities& capabilities() {
    static const Capabilities value{.cuda_memory = true,
                                    .needs_target_progress = true,
                                    .one_rank_per_gpu = !may_share_gpus(),
                                    .broadcasts = true};
    return value;
}

std::unique_ptr<Transport> make(const Context& context) {
    if (context.nccl.mode == NcclMode::Put)
        if (const std::string why = why_no_puts(context); !why.empty()) throw ConfigError(why);
    return std::make_unique<NcclTransport>(context);
}

std::string problem(const Context&) { return cuda::why_no_devices(); }

}  // namespace weightlift::transport::nccl
