#include "transport.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/error.hpp"

#include "push.hpp"
#include "region.hpp"

namespace weightlift::transport::cuda_ipc {
namespace {

/// An engine takes 2.7 us to begin an operation: what it loses by that on 16 MB, the kernel loses
/// on every copy (two H200: 370 of 395 GB/s). Engines that serve several processes lose a little
/// more.
constexpr Bytes kSmall = 12 * MiB;
/// Engines move rows of 256 bytes at nearly full rate (two H200: 382 of 396 GB/s).
constexpr Bytes kShortRow = 128;

Bytes max_pitch(int device) {
    int pitch = 0;
    cuda::check(cudaDeviceGetAttribute(&pitch, cudaDevAttrMaxPitch, device),
                "cudaDeviceGetAttribute");
    return static_cast<Bytes>(pitch);
}

class CudaIpcTransport final : public Transport {
public:
    explicit CudaIpcTransport(const Context& context)
        : context_(context), arrived_(static_cast<std::size_t>(context.world->size())) {}
    ~CudaIpcTransport() override {
        try {
            const cuda::DeviceGuard guard(own_ ? own_->device() : 0);
            regions_.clear();
        } catch (const Error& error) {
            fmt::print(stderr, "weightlift: {}\n", error.what());
        }
    }

    [[nodiscard]] std::string_view name() const override { return "cuda_ipc"; }
    [[nodiscard]] const Capabilities& capabilities() const override {
        return cuda_ipc::capabilities();
    }
    [[nodiscard]] Bytes scratch_bytes(const LinkTable&) const override {
        return EpochLines::bytes(context_.world->size());
    }
    [[nodiscard]] RegionKey register_memory(memory::Arena& arena) override {
        WEIGHTLIFT_ENSURES(!own_);
        own_.emplace(arena, context_.world->rank(), context_.world->size());
        return pack_key(own_->key());
    }
    // Nothing to agree on: keys say all.
    void connect(const LinkTable&) override { WEIGHTLIFT_ENSURES(own_.has_value()); }

    [[nodiscard]] std::unique_ptr<Push> prepare(BoundPlan plan) override {
        WEIGHTLIFT_ENSURES(own_.has_value());
        // Before a peer is asked for anything.
        check_bounds(plan, own_->arena().bytes(), context_.label);
        auto regions = map_all(plan);
        return std::make_unique<CudaIpcPush>(plan,
                                             CudaIpcPush::Parts{.own = *own_,
                                                                .regions = std::move(regions),
                                                                .arrived = arrived_,
                                                                .rank = context_.world->rank(),
                                                                .rules = rules(),
                                                                .label = context_.label});
    }
    [[nodiscard]] Attachment attachment() const override {
        if (!own_) return {};
        Attachment attached;
        attached.registration =
            own_->key().share.method == memory::DeviceMemory::Vmm ? "vmm" : "cuda ipc";
        attached.rows = fmt::format("copies below {} by kernel", human_bytes(rules().small));
        return attached;
    }

private:
    struct Mapped {
        Destination destination;
        std::shared_ptr<const RemoteRegion> region;
    };

    [[nodiscard]] SplitRules rules() const {
        SplitRules rules{.small = kSmall,
                         .short_row = kShortRow,
                         .max_pitch = max_pitch(own_->device()),
                         .op_bytes = GiB,
                         .batch_bytes = 128 * MiB,
                         .batch_ops = 16};
        for (const Bytes limit : {context_.slice, context_.max_message})
            if (limit > 0) rules.op_bytes = rules.batch_bytes = std::min(rules.op_bytes, limit);
        return rules;
    }

    /// Each mapped once for all pushes to the same region. Memory that goes by descriptor is asked
    /// for in every prepare, since its owner cannot know who has it already.
    std::vector<std::shared_ptr<const RemoteRegion>> map_all(const BoundPlan& plan) {
        const mpi::Deadline deadline(context_.timeout);
        std::vector<Key> keys;
        std::vector<std::optional<FdCall>> calls;
        for (const Destination& destination : plan.destinations) {
            const std::string peer = context_.label(destination.rank);
            const Key key =
                keys.emplace_back(checked_key(destination, context_.world->size(), peer));
            auto& call = calls.emplace_back();
            if (key.door != DoorName{}) call.emplace(key.door, "cuda_ipc", peer);
        }
        own_->serve(plan.sources.size(), deadline);
        std::vector<std::shared_ptr<const RemoteRegion>> regions;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const Destination& destination = plan.destinations[i];
            const Descriptor fd = calls[i] ? calls[i]->take(deadline) : Descriptor(-1);
            Mapped& known = regions_[destination.rank];
            if (!known.region || known.destination != destination)
                known = {destination,
                         std::make_shared<RemoteRegion>(keys[i], fd.get(), own_->device(),
                                                        context_.label(destination.rank))};
            regions.push_back(known.region);
        }
        return regions;
    }

    Context context_;
    std::optional<LocalRegion> own_;
    std::map<int, Mapped> regions_;
    std::vector<std::uint64_t> arrived_;
};

}  // namespace

const Capabilities& capabilities() {
    // Each turn begins an operation of an engine, and NVLink knows no incast worth that.
    static const Capabilities value{.cuda_memory = true,
                                    .same_host_only = true,
                                    .one_sided = true,
                                    .remote_scatter = true,
                                    .turn = GiB};
    return value;
}

std::unique_ptr<Transport> make(const Context& context) {
    return std::make_unique<CudaIpcTransport>(context);
}

std::string problem(const Context&) { return cuda::why_no_devices(); }

}  // namespace weightlift::transport::cuda_ipc
