// What one queue pair brings in a push: exactly one notice of its epoch, after all its parcels and
// signals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "connections.hpp"
#include "sender.hpp"

namespace weightlift::transport::verbs {

class Receiver {
public:
    /// `staging`: kSlots slots of `slot` bytes for the parcels; `arena` is where they belong.
    /// `signals`: how many are to come.
    Receiver(const Channel& channel, std::vector<Parcel> parcels, const std::byte* staging,
             Bytes slot, std::byte* arena, std::uint32_t signals);

    [[nodiscard]] int peer() const { return peer_; }
    [[nodiscard]] bool is_done() const { return has_arrived_; }
    /// So far.
    [[nodiscard]] std::uint32_t signals() const { return signals_; }
    void start(std::uint64_t epoch);

    enum class Arrival { Parcel, Signal, Notice };
    /// `notice`: what came with a completion. A parcel's rows are put in place. TransportError,
    /// naming `peer_label`, where it is not what must come next.
    [[nodiscard]] Arrival accept(std::uint32_t notice, const std::string& peer_label);

private:
    int peer_;
    std::vector<Parcel> parcels_;
    const std::byte* staging_;
    Bytes slot_;
    std::byte* arena_;
    std::uint64_t epoch_ = 0;
    std::size_t next_parcel_ = 0;
    std::uint32_t signals_ = 0, expected_signals_ = 0;
    bool has_arrived_ = false;
};

/// Throws TransportError, naming `peer_label`, where a parcel is longer than a slot or leaves the
/// region: what a peer says is not taken on trust.
void check_parcels(const std::vector<Parcel>& parcels, Bytes slot, Bytes region_bytes,
                   const std::string& peer_label);

}  // namespace weightlift::transport::verbs
