// Memory with its registrations, one for each device of this rank that is used.
#pragma once

#include <memory>
#include <vector>

#include "connections.hpp"

namespace weightlift::transport::verbs {

class Registered {
public:
    Registered() = default;
    /// Pieces are the same with every device, so that a request fits whichever it goes through:
    /// the least of what they allow and `most` (0: no more than that), in whole `unit`s, which are
    /// whole pages: no page belongs to two pieces, and no slot of staging. None spans two extents.
    Registered(const std::vector<std::unique_ptr<Device>>& devices, memory::Arena& arena,
               int access, Bytes most, Registration asked = Registration::Auto, Bytes unit = 4096);
    /// What tests want wrong in what is registered or told from now on.
    void set_fault(VerbsFault fault) { fault_ = fault; }
    /// Where it is not registered with that device yet.
    void add(const Device& device, std::size_t rail);

    [[nodiscard]] memory::Arena& arena() const { return *arena_; }
    [[nodiscard]] Bytes piece() const { return piece_; }
    [[nodiscard]] LocalMemory local(int rail) const {
        return {arena_->data(), regions_[static_cast<std::size_t>(rail)].get()};
    }
    [[nodiscard]] RemoteMemory told() const;
    /// Of the first device that it is registered with; empty before.
    [[nodiscard]] std::string_view method() const;

private:
    memory::Arena* arena_ = nullptr;
    Bytes piece_ = 0;
    int access_ = 0;
    Registration asked_ = Registration::Auto;
    VerbsFault fault_ = VerbsFault::None;
    std::vector<std::unique_ptr<Region>> regions_;  ///< by rail
};

/// Pure. The largest piece of at most `most` bytes, in whole units, that does not span two of the
/// extents that `bytes` are made of.
[[nodiscard]] Bytes piece_for(Bytes most, Bytes unit, Bytes extent, Bytes bytes);

}  // namespace weightlift::transport::verbs
