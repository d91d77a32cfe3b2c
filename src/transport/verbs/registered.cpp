#include "registered.hpp"

#include <algorithm>

namespace weightlift::transport::verbs {

Bytes piece_for(Bytes most, Bytes unit, Bytes extent, Bytes bytes) {
    const Bytes piece = std::max(most / unit * unit, unit);
    if (extent >= bytes) return piece;
    // Equal parts of an extent; an extent is made of whole pages.
    for (Bytes parts = extent / piece + (extent % piece > 0 ? 1 : 0); parts <= extent / unit;
         ++parts)
        if (extent % parts == 0 && extent / parts % unit == 0) return extent / parts;
    return unit;
}

Registered::Registered(const std::vector<std::unique_ptr<Device>>& devices, memory::Arena& arena,
                       int access, Bytes most, Registration asked, Bytes unit)
    : arena_(&arena), access_(access), asked_(asked), regions_(devices.size()) {
    Bytes limit = most > 0 ? most : ~Bytes{0};
    for (const auto& device : devices)
        if (device->nic().limits.mr_size > 0) limit = std::min(limit, device->nic().limits.mr_size);
    piece_ = piece_for(limit, unit, arena.extent(), arena.bytes());
}

void Registered::add(const Device& device, std::size_t rail) {
    if (!regions_[rail])
        regions_[rail] = std::make_unique<Region>(
            device, *arena_, access_, piece_, asked_,
            fault_ == VerbsFault::ShortRegion ? plan::kArenaAlignment : Bytes{0});
}

RemoteMemory Registered::told() const {
    RemoteMemory memory{.base = reinterpret_cast<std::uint64_t>(arena_->data()),
                        .bytes = arena_->bytes(),
                        .piece = piece_,
                        .keys = {}};
    for (const auto& region : regions_)
        memory.keys.push_back(region ? region->remote_keys() : std::vector<std::uint32_t>{});
    if (fault_ == VerbsFault::WrongKey)
        for (auto& keys : memory.keys)
            for (std::uint32_t& key : keys) key ^= 0x5a5a00U;
    return memory;
}

std::string_view Registered::method() const {
    for (const auto& region : regions_)
        if (region) return to_string(region->method());
    return "";
}

}  // namespace weightlift::transport::verbs
