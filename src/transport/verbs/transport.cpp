#include "transport.hpp"

#include <algorithm>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../region_key.hpp"
#include "attach.hpp"
#include "push.hpp"

namespace weightlift::transport::verbs {
namespace {

/// Addresses and memory keys travel with the queue pairs; this one proves that both mean the same
/// region.
struct Key {
    static constexpr std::uint32_t kTag = 0x76727331;  // "vrs1"
    std::int32_t rank = -1;
    std::int32_t unused = 0;
    std::uint64_t bytes = 0;
    std::uint64_t nonce = 0;
};

constexpr Bytes kPage = 4096;

class VerbsTransport final : public Transport {
public:
    explicit VerbsTransport(const Context& context)
        : context_(context), devices_(open_devices(context)) {}

    [[nodiscard]] std::string_view name() const override { return "verbs"; }
    [[nodiscard]] const Capabilities& capabilities() const override {
        return verbs::capabilities();
    }
    [[nodiscard]] Bytes scratch_bytes(const LinkTable& links) const override {
        const Bytes each = channels(links) * kSlots * slot_for(links);
        return each + probe_bytes();
    }
    [[nodiscard]] RegionKey register_memory(memory::Arena& arena) override {
        WEIGHTLIFT_ENSURES(arena_ == nullptr);
        arena_ = &arena;
        std::random_device source;
        nonce_ = std::uint64_t{source()} << 32 | source();
        register_with_own();
        return pack_key(
            Key{.rank = context_.world->rank(), .bytes = arena.bytes(), .nonce = nonce_});
    }
    void connect(const LinkTable& links) override;
    [[nodiscard]] std::unique_ptr<Push> prepare(BoundPlan plan) override;
    [[nodiscard]] Attachment attachment() const override;

private:
    void register_with_own();
    void check_key(const Destination& destination) const;
    [[nodiscard]] RowRule row_rule(const BoundPlan& plan);
    /// Most queue pairs that these links may get on one side.
    [[nodiscard]] Bytes channels(const LinkTable& links) const;
    [[nodiscard]] Bytes slot_for(const LinkTable& links) const;
    [[nodiscard]] Bytes probe_bytes() const;
    [[nodiscard]] Bytes smallest_region() const;

    Context context_;
    std::vector<std::unique_ptr<Device>> devices_;
    memory::Arena* arena_ = nullptr;
    std::uint64_t nonce_ = 0;
    Bytes slot_ = 0;
    std::unique_ptr<memory::Arena> probe_memory_;
    Registered region_, probe_;
    Visibility visibility_ = Visibility::Nothing;
    std::optional<Connections> connections_;
    std::optional<Loopback> loopback_;
    std::vector<std::optional<Bytes>> sent_before_;  ///< ports' counters at connect, by rail
    std::string rows_;                               ///< what decided how short rows travel
    bool is_abandoned_ = false;
};

Bytes VerbsTransport::channels(const LinkTable& links) const {
    const std::size_t peers = std::max(links.destinations.size(), links.sources.size());
    const auto qps = static_cast<Bytes>(context_.verbs.qps > 0 ? context_.verbs.qps
                                                               : plan::default_queue_pairs(peers));
    return peers * qps * devices_.size();
}

Bytes VerbsTransport::smallest_region() const {
    Bytes least = context_.verbs.region_bytes > 0 ? context_.verbs.region_bytes : ~Bytes{0};
    for (const auto& device : devices_)
        if (device->nic().limits.mr_size > 0) least = std::min(least, device->nic().limits.mr_size);
    return std::max(least / kPage * kPage, kPage);
}

Bytes VerbsTransport::slot_for(const LinkTable& links) const {
    const Rows rows = context_.verbs.rows;
    if (rows == Rows::Direct || rows == Rows::Gather) return 0;
    // Rows are packed and cut out by the processor.
    if (arena_ != nullptr && arena_->kind() != memory::MemoryKind::Host) return 0;
    const Bytes count = std::max<Bytes>(1, channels(links)) * kSlots;
    // Only staging is registered in pieces of a slot; less than a page is not worth having.
    return std::min(
        {kSlotBytes, context_.verbs.staging_limit / count / kPage * kPage, smallest_region()});
}

Bytes VerbsTransport::probe_bytes() const { return std::min(kSlotBytes, smallest_region()); }

void VerbsTransport::register_with_own() {
    const int write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    if (context_.is_written_to && arena_->bytes() > 0)
        visibility_ = visibility_for(arena_->remote_writes());
    // A rank that is only a source lets nobody write to it. Relaxed ordering is right: no byte is
    // written again before its first value was used, and only completions are trusted.
    const int access = (context_.is_written_to ? write : IBV_ACCESS_LOCAL_WRITE) |
                       (visibility_ == Visibility::LoopbackRead ? IBV_ACCESS_REMOTE_READ : 0) |
                       (context_.verbs.relaxed_ordering ? IBV_ACCESS_RELAXED_ORDERING : 0);
    region_ = Registered(devices_, *arena_, access, context_.verbs.region_bytes,
                         context_.verbs.registration);
    region_.set_fault(context_.verbs.fault);
    probe_memory_ = memory::make_host_arena(probe_bytes());
    probe_ = Registered(devices_, *probe_memory_, write, 0);
    for (std::size_t rail = 0; rail < devices_.size(); ++rail)
        if (!devices_[rail]->is_spare()) region_.add(*devices_[rail], rail);
}

void VerbsTransport::connect(const LinkTable& links) {
    WEIGHTLIFT_ENSURES(arena_ != nullptr);
    WEIGHTLIFT_ENSURES(context_.is_written_to || links.sources.empty());
    loopback_.reset();
    connections_.reset();
    is_abandoned_ = false;
    slot_ = slot_for(links);
    sent_before_.clear();
    for (const auto& device : devices_) {
        device->completed = 0;
        sent_before_.push_back(read_port_counters(device->nic().name, device->port().number).sent);
    }
    Hello mine;
    mine.asked_qps = context_.verbs.qps;
    mine.slot = slot_;
    mine.nonce = nonce_;
    for (const auto& device : devices_) mine.rails.push_back(device->rail());
    connections_.emplace(context_, devices_, links, std::move(mine),
                         [this](const std::vector<bool>& used) {
                             for (std::size_t rail = 0; rail < used.size(); ++rail) {
                                 if (!used[rail]) continue;
                                 region_.add(*devices_[rail], rail);
                                 probe_.add(*devices_[rail], rail);
                             }
                             if (visibility_ == Visibility::LoopbackRead)
                                 loopback_.emplace(devices_, used, context_.verbs, region_, probe_);
                             return Offer{region_.told(), probe_.told()};
                         });
}

void VerbsTransport::check_key(const Destination& destination) const {
    const std::string peer = context_.label(destination.rank);
    const auto key = expect_key<Key>(destination, "verbs", context_.label);
    const Peer* const linked = connections_->find(destination.rank);
    if (linked == nullptr || linked->outgoing.empty())
        throw TransportError(fmt::format("verbs: there is no connection to {}", peer));
    if (key.nonce != linked->hello.nonce || key.bytes != linked->offer.region.bytes)
        throw TransportError(fmt::format("verbs: the key of {} is of another region", peer));
}

RowRule VerbsTransport::row_rule(const BoundPlan& plan) {
    if (context_.verbs.rows != Rows::Auto) return fixed_rule(context_.verbs.rows);
    if (plan.copies.empty() || slot_ == 0) return {};
    const Peer& peer = *connections_->find(plan.destinations.front().rank);
    const auto rail = connections_->channel(peer.outgoing.front()).rail;
    return measure_rows(plan.copies, *devices_[static_cast<std::size_t>(rail)], *connections_, peer,
                        probe_.local(rail), probe_bytes(), context_);
}

std::unique_ptr<Push> VerbsTransport::prepare(BoundPlan plan) {
    WEIGHTLIFT_ENSURES(connections_.has_value());
    if (is_abandoned_)
        throw TransportError("verbs: the last push was given up, connect again first");
    for (const Destination& destination : plan.destinations) check_key(destination);
    check_bounds(plan, arena_->bytes(), context_.label);
    RowRule rule = row_rule(plan);
    if (!plan.segments.empty()) rule.never_unpack();
    rows_ = rule.why;
    return std::make_unique<VerbsPush>(plan, rule,
                                       Lent{.context = context_,
                                            .devices = devices_,
                                            .connections = *connections_,
                                            .arena = region_,
                                            .slot = slot_,
                                            .visibility = visibility_,
                                            .loopback = loopback_ ? &*loopback_ : nullptr,
                                            .is_abandoned = is_abandoned_});
}

Attachment VerbsTransport::attachment() const {
    Attachment out;
    std::vector<std::string> names;
    // Only what queue pairs go through.
    for (std::size_t rail = 0; rail < devices_.size(); ++rail) {
        const auto& device = devices_[rail];
        if (!connections_ || !connections_->uses(static_cast<int>(rail))) continue;
        names.push_back(device->label());
        const auto now = read_port_counters(device->nic().name, device->port().number).sent;
        const auto before = sent_before_[rail];
        out.traffic.push_back({device->label(), device->completed,
                               now && before ? std::optional(*now - *before) : std::nullopt});
    }
    out.nic = fmt::format("{}", fmt::join(names, "+"));
    out.gid_index = devices_.front()->gid().index;
    out.mtu = devices_.front()->port().mtu;
    out.registration = region_.method();
    out.visibility = to_string(visibility_);
    out.rows = rows_;
    out.queue_pairs = connections_ ? connections_->size() : 0;
    return out;
}

}  // namespace

const Capabilities& capabilities() {
    static const Capabilities value{.host_memory = true,
                                    .cuda_memory = true,
                                    .one_sided = true,
                                    .ordering = Ordering::PerChannel,
                                    .notify = Notify::LastPerChannel,
                                    .imm_bits = 30,
                                    .max_sge = plan::kGatheredRows};
    return value;
}

std::string problem(const Context& context) try {
    const std::vector<Nic> nics = list_nics();
    static_cast<void>(choose_places(nics, context));
    return "";
} catch (const Error& error) {
    return fmt::format("verbs: {}", error.what());
}

std::unique_ptr<Transport> make(const Context& context) try {
    return std::make_unique<VerbsTransport>(context);
} catch (const ConfigError& error) {
    throw ConfigError(fmt::format("verbs: {}", error.what()));
}

}  // namespace weightlift::transport::verbs
