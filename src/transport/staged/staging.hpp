// Host memory between two copies: a rank's own, and the part of a destination's that its source
// maps, so that bytes between ranks of one host are staged once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "weightlift/cuda/copy.hpp"
#include "weightlift/cuda/stream.hpp"
#include "weightlift/memory/arena.hpp"

#include "../peer_memory.hpp"

namespace weightlift::transport::staged {

/// Slots of a destination for each of its sources. A copy engine fills 4 MiB in 76 us at 55 GB/s;
/// with one slot being filled, one emptied and one queued behind each of the two, neither engine
/// waits for the ends to hear of each other.
inline constexpr std::size_t kInSlots = 4;

/// Pinned while this lives where a GPU's copy engine is to reach it.
class Pin {
public:
    /// `weights` says whether there is an engine. ConfigError where the system does not lock so
    /// much.
    Pin(const memory::Arena& weights, int device, std::byte* at, Bytes bytes);

private:
    std::optional<cuda::Pinned> pinned_;
};

/// A rank's own.
class Staging {
public:
    Staging(Bytes bytes, const memory::Arena& weights, int device);
    [[nodiscard]] std::byte* data() const { return memory_->data(); }
    [[nodiscard]] FileId file() const { return FileId::of(memory_->share_fd(), memory_->bytes()); }

private:
    std::unique_ptr<memory::Arena> memory_;
    Pin pin_;
};

/// How far an end is: messages of the push of that epoch.
struct Progress {
    std::uint32_t epoch = 0, messages = 0;
    friend bool operator==(const Progress&, const Progress&) = default;
};
inline constexpr Progress kRefusal{~std::uint32_t{0}, ~std::uint32_t{0}};

/// Slots that messages of one source take in turn, and the two lines by which both ends that map
/// them say how far they are. A view.
class Ring {
public:
    /// Whole pages, so that one ring can be mapped without its neighbours.
    [[nodiscard]] static Bytes bytes(Bytes slot);
    Ring(std::byte* at, Bytes slot) : at_(at), slot_(slot) {}
    [[nodiscard]] std::byte* slot(std::uint64_t message) const {
        return at_ + 2 * kLine + message % kInSlots * slot_;
    }
    /// By the source, after the bytes of those messages.
    void tell_filled(const Progress& progress) const { store(0, progress); }
    [[nodiscard]] Progress filled() const { return load(0); }
    /// By the destination, once their slots may be written again.
    void tell_placed(const Progress& progress) const { store(1, progress); }
    [[nodiscard]] Progress placed() const { return load(1); }

private:
    static constexpr Bytes kLine = 64;
    using Word = std::atomic<std::uint64_t>;
    static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::uint64_t));
    [[nodiscard]] Word& word(Bytes line) const {
        return *reinterpret_cast<Word*>(at_ + line * kLine);
    }
    void store(Bytes line, const Progress& p) const {
        word(line).store(std::uint64_t{p.epoch} << 32 | p.messages, std::memory_order_release);
    }
    [[nodiscard]] Progress load(Bytes line) const {
        const std::uint64_t packed = word(line).load(std::memory_order_acquire);
        return {static_cast<std::uint32_t>(packed >> 32), static_cast<std::uint32_t>(packed)};
    }

    std::byte* at_;
    Bytes slot_;
};

/// Where a destination keeps a ring, for the source that is to map it.
struct RingPlace {
    ProcessId owner;
    FileId file;
    Bytes offset = 0, slot = 0;
};

/// Another process's ring, mapped here.
class PeerRing {
public:
    /// Throws TransportError or ConfigError where this process cannot map or pin it.
    PeerRing(const RingPlace& place, int rank, const std::string& peer,
             const memory::Arena& weights, int device);
    [[nodiscard]] const Ring& ring() const { return ring_; }

private:
    Mapping mapping_;
    Pin pin_;
    Ring ring_;
};

}  // namespace weightlift::transport::staged
