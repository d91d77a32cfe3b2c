#include "transport.hpp"

#include <map>
#include <optional>

#include "push.hpp"
#include "region.hpp"

namespace weightlift::transport::shm {
namespace {

class ShmTransport final : public Transport {
public:
    explicit ShmTransport(const Context& context)
        : context_(context), arrived_(static_cast<std::size_t>(context.world->size())) {}

    [[nodiscard]] std::string_view name() const override { return "shm"; }
    [[nodiscard]] const Capabilities& capabilities() const override { return shm::capabilities(); }
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
        std::vector<std::shared_ptr<const RemoteRegion>> regions;
        for (const Destination& destination : plan.destinations)
            regions.push_back(mapped(destination));
        return std::make_unique<ShmPush>(std::move(plan),
                                         ShmPush::Parts{.own = *own_,
                                                        .regions = std::move(regions),
                                                        .arrived = arrived_,
                                                        .rank = context_.world->rank(),
                                                        .slice = context_.slice,
                                                        .label = context_.label});
    }

private:
    struct Mapped {
        Destination destination;
        std::shared_ptr<const RemoteRegion> region;
    };

    /// Mapped once for all pushes to the same region.
    std::shared_ptr<const RemoteRegion> mapped(const Destination& destination) {
        Mapped& known = regions_[destination.rank];
        if (!known.region || known.destination != destination) {
            known.region = std::make_shared<RemoteRegion>(destination, context_.world->size(),
                                                          context_.label(destination.rank));
            known.destination = destination;
        }
        return known.region;
    }

    Context context_;
    std::optional<LocalRegion> own_;
    std::map<int, Mapped> regions_;
    std::vector<std::uint64_t> arrived_;
};

}  // namespace

const Capabilities& capabilities() {
    static const Capabilities value{.host_memory = true,
                                    .same_host_only = true,
                                    .one_sided = true,
                                    .remote_scatter = true,
                                    .ordering = Ordering::PerChannel};
    return value;
}

std::unique_ptr<Transport> make(const Context& context) {
    return std::make_unique<ShmTransport>(context);
}

}  // namespace weightlift::transport::shm
