#include "transport.hpp"

#include <optional>

#include "../region_key.hpp"
#include "push.hpp"
#include "window.hpp"

namespace weightlift::transport::mpi_rma {
namespace {

/// Windows are addressed by rank; the key only proves that both sides mean the same memory.
using Key = RankKey<0x6d706931>;  // "mpi1"

class MpiTransport final : public Transport {
public:
    explicit MpiTransport(const Context& context) : context_(context) {
        WEIGHTLIFT_ENSURES(context.watchdog != nullptr);
    }

    [[nodiscard]] std::string_view name() const override { return "mpi"; }
    [[nodiscard]] const Capabilities& capabilities() const override {
        return mpi_rma::capabilities();
    }
    /// What MPI itself takes is not known; ours is one request and notice a link, or a few where
    /// there are segments.
    [[nodiscard]] Bytes scratch_bytes(const LinkTable& links) const override {
        return (links.sources.size() + links.destinations.size()) * 64;
    }
    [[nodiscard]] RegionKey register_memory(memory::Arena& arena) override {
        WEIGHTLIFT_ENSURES(arena_ == nullptr);
        arena_ = &arena;
        return pack_key(Key{.rank = context_.world->rank(), .bytes = arena.bytes()});
    }
    void connect(const LinkTable& links) override {
        WEIGHTLIFT_ENSURES(arena_ != nullptr && !windows_);
        windows_.emplace(context_, links, *arena_);
    }
    [[nodiscard]] std::unique_ptr<Push> prepare(BoundPlan plan) override {
        WEIGHTLIFT_ENSURES(windows_.has_value());
        for (const Destination& destination : plan.destinations)
            static_cast<void>(expect_key<Key>(destination, "mpi", context_.label));
        return std::make_unique<MpiPush>(plan, context_, *windows_, *arena_);
    }

private:
    Context context_;
    memory::Arena* arena_ = nullptr;
    std::optional<Windows> windows_;
};

}  // namespace

const Capabilities& capabilities() {
    static const Capabilities value{.host_memory = true,
                                    .one_sided = true,
                                    .needs_target_progress = true,
                                    .ordering = Ordering::None};
    return value;
}

std::unique_ptr<Transport> make(const Context& context) {
    return std::make_unique<MpiTransport>(context);
}

}  // namespace weightlift::transport::mpi_rma
