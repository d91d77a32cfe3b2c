// Arrival within a host: a page in which each source notes how far it is in which push, and its
// owner's watch over it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "peer_memory.hpp"

namespace weightlift::transport {

/// What a source notes: the epoch, how many segments are placed, whether all is.
struct Note {
    std::uint32_t epoch = 0;
    std::uint32_t segments = 0;
    bool is_done = false;
    [[nodiscard]] std::uint64_t packed() const {
        return std::uint64_t{epoch} << 32 | std::uint64_t{is_done} << 31 | segments;
    }
    [[nodiscard]] static Note of(std::uint64_t packed) {
        return {static_cast<std::uint32_t>(packed >> 32),
                static_cast<std::uint32_t>(packed & 0x7fffffffU), (packed >> 31 & 1) != 0};
    }
};

/// One note a source, packed, each on a cache line of its own.
class EpochLines {
public:
    [[nodiscard]] static Bytes bytes(int sources);
    explicit EpochLines(std::byte* page) : page_(page) {}
    [[nodiscard]] std::atomic<std::uint64_t>& operator[](int source) const;
    /// After every byte that it speaks of: whoever sees it sees them.
    void write(int source, const Note& note) const {
        (*this)[source].store(note.packed(), std::memory_order_release);
    }

private:
    std::byte* page_;
};

/// A rank's own page, as an anonymous file.
class ControlPage {
public:
    explicit ControlPage(int sources);
    [[nodiscard]] FileId id() const;
    [[nodiscard]] EpochLines epochs() const { return EpochLines(mapping_.data()); }

private:
    Bytes bytes_;
    Descriptor file_;
    Mapping mapping_;
};

/// Who has arrived in the push under way.
class Arrivals {
public:
    /// Of a plan's sources; `signals` as in BoundPlan. `accepted`: by world rank, the last epoch
    /// taken from it; outlives all pushes.
    Arrivals(EpochLines lines, std::vector<int> sources, std::vector<std::uint32_t> signals,
             std::vector<std::uint64_t>& accepted, std::string backend,
             std::function<std::string(int)> label);

    /// Throws TransportError where a source has notified that epoch already.
    void start(std::uint64_t epoch);
    /// Throws TransportError where a source notifies another epoch, or not as many segments as are
    /// planned.
    void look();
    [[nodiscard]] bool are_all_here() const { return waiting_.empty(); }
    /// Ranks that have not finished.
    [[nodiscard]] std::vector<int> waiting() const;
    /// Segments that a source (by its index) has placed in the push under way, when last looked.
    [[nodiscard]] std::uint32_t segments_from(std::size_t source) const {
        return segments_[source];
    }

private:
    EpochLines lines_;
    std::vector<int> sources_;
    std::vector<std::uint32_t> planned_, segments_;  ///< by source
    std::vector<std::uint64_t>& accepted_;
    std::string backend_;
    std::function<std::string(int)> label_;
    std::uint64_t epoch_ = 0;
    std::vector<std::size_t> waiting_;  ///< indices
};

}  // namespace weightlift::transport
