// Arrival within a host: a page in which each source notes the epoch that it has finished, and its
// owner's watch over it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "peer_memory.hpp"

namespace weightlift::transport {

/// One epoch a source, each on a cache line of its own.
class EpochLines {
public:
    [[nodiscard]] static Bytes bytes(int sources);
    explicit EpochLines(std::byte* page) : page_(page) {}
    [[nodiscard]] std::atomic<std::uint64_t>& operator[](int source) const;

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
    /// `accepted`: by world rank, the last epoch taken from it; outlives all pushes.
    Arrivals(EpochLines lines, std::vector<std::uint64_t>& accepted, std::string backend,
             std::function<std::string(int)> label)
        : lines_(lines),
          accepted_(accepted),
          backend_(std::move(backend)),
          label_(std::move(label)) {}

    /// Throws TransportError where a source has notified that epoch already.
    void start(const std::vector<int>& sources, std::uint64_t epoch);
    /// Throws TransportError where a source notifies another epoch.
    void look();
    [[nodiscard]] const std::vector<int>& waiting() const { return waiting_; }

private:
    EpochLines lines_;
    std::vector<std::uint64_t>& accepted_;
    std::string backend_;
    std::function<std::string(int)> label_;
    std::uint64_t epoch_ = 0;
    std::vector<int> waiting_;
};

}  // namespace weightlift::transport
