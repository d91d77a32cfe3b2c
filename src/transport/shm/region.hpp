// Memory that other processes of this host write to: the arena, and the page in which they note
// what they have finished.
#pragma once

#include "../arrivals.hpp"
#include "../region_key.hpp"

namespace weightlift::transport::shm {

struct Key {
    static constexpr std::uint32_t kTag = 0x73686d31;  // "shm1"
    ProcessId owner;
    FileId arena, control;
};

/// A rank's own region.
class LocalRegion {
public:
    /// For `rank` of a world of `size`.
    LocalRegion(const memory::Arena& arena, int rank, int size);
    [[nodiscard]] const Key& key() const { return key_; }
    [[nodiscard]] const memory::Arena& arena() const { return arena_; }
    [[nodiscard]] EpochLines epochs() const { return control_.epochs(); }

private:
    const memory::Arena& arena_;
    ControlPage control_;
    Key key_;
};

/// Another process's region, mapped here.
class RemoteRegion {
public:
    /// Throws TransportError where the key is not one of this host, or not of a live region of that
    /// rank and size. `peer` is its owner's label.
    RemoteRegion(const Destination& destination, int world_size, const std::string& peer);
    [[nodiscard]] std::byte* data() const { return arena_.data(); }
    [[nodiscard]] EpochLines epochs() const { return EpochLines(control_.data()); }

private:
    RemoteRegion(const Key& key, const std::string& peer);
    Mapping arena_;
    Mapping control_;
};

}  // namespace weightlift::transport::shm
