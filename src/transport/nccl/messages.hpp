// What one source sends to one destination, cut into messages and rounds. The source cuts; the
// destination is told the list and receives by it, since NCCL matches messages by their order
// alone. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weightlift/plan/copy.hpp"

namespace weightlift::transport::nccl {

struct MessageRules {
    Bytes direct = MiB;            ///< ranges from this size on travel from arena to arena
    Bytes slot = 64 * MiB;         ///< most packed bytes of a round
    Bytes message = ~Bytes{0};     ///< most bytes of a message from arena to arena
    std::uint64_t messages = 256;  ///< most of those in a round
    Bytes least_packed = 8 * MiB;  ///< where there is more to pack, no round packs less
};

/// A range that travels from arena to arena.
struct Message {
    Bytes src_offset = 0, dst_offset = 0, bytes = 0;
};

/// A copy that travels inside its round's packed message, its rows one after the other.
struct Packed {
    plan::Copy copy;
    Bytes at = 0;  ///< where it begins in the packed message
};

/// Ends of a round's share in the lists, and the size of its packed message (0: none).
struct Round {
    std::uint64_t messages_end = 0, packed_end = 0;
    Bytes packed_bytes = 0;
};

struct PairMessages {
    std::vector<Message> messages;
    std::vector<Packed> packed;
    std::vector<Round> rounds;  ///< never empty
    [[nodiscard]] Bytes bytes() const;
    [[nodiscard]] std::span<const Message> messages_of(std::size_t round) const;
    [[nodiscard]] std::span<const Packed> packed_of(std::size_t round) const;
};

/// The copies of one pair, in the plan's order. Long ranges are dealt out over the rounds, so that
/// they travel while the kernel packs what goes next.
[[nodiscard]] PairMessages cut_messages(std::span<const plan::Copy> copies,
                                        const MessageRules& rules);

/// Throws TransportError, naming `peer`, where a list that it has told is not well formed or leaves
/// this rank's `arena_bytes`.
void check_messages(const PairMessages& list, Bytes arena_bytes, const std::string& peer);

}  // namespace weightlift::transport::nccl
