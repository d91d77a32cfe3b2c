// What one source sends to one destination, cut into messages and rounds. The source cuts; the
// destination is told the list and receives by it, since NCCL matches messages by their order
// alone. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weightlift/transport/bound_plan.hpp"

namespace weightlift::transport::nccl {

struct MessageRules {
    Bytes direct = MiB;            ///< ranges from this size on travel from arena to arena
    Bytes slot = 64 * MiB;         ///< most packed bytes of a round
    Bytes message = ~Bytes{0};     ///< most bytes of a message from arena to arena
    std::uint64_t messages = 256;  ///< most of those in a round
    Bytes least_packed = 8 * MiB;  ///< where there is more to pack, no round packs less
    /// Whether packing is spread over rounds to travel behind ranges. Of segments others do.
    bool is_spread = true;
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
    std::uint64_t number = 0;        ///< ascending; ranks go through rounds in this order
    std::uint64_t segments_end = 0;  ///< of the pair: those that are there after it
};

/// Of the first round of a plan's segments of one round, or any after it.
[[nodiscard]] constexpr std::uint64_t round_number(std::uint32_t of_plan, std::uint64_t further) {
    return (std::uint64_t{of_plan} << 32) + further;
}
[[nodiscard]] constexpr std::uint32_t round_of_plan(std::uint64_t number) {
    return static_cast<std::uint32_t>(number >> 32);
}

// Broadcasts have numbers of their own, after all others of the plan's round: of each root others,
// so that a number stands for groups of sends, or for one root's broadcasts.
inline constexpr int kFurtherBits = 10;
inline constexpr std::uint64_t kBroadcast = std::uint64_t{1} << 31;
/// Most broadcast rounds of a root in a round of the plan.
inline constexpr std::uint64_t kMostBroadcastRounds = std::uint64_t{1} << kFurtherBits;
/// Roots have smaller world ranks.
inline constexpr int kRoots = (1 << (31 - kFurtherBits)) - 1;
[[nodiscard]] constexpr std::uint64_t broadcast_number(std::uint32_t of_plan, int root,
                                                       std::uint64_t further) {
    return round_number(of_plan,
                        kBroadcast + (static_cast<std::uint64_t>(root) << kFurtherBits) + further);
}
/// After all of the plan's round.
[[nodiscard]] constexpr std::uint64_t last_number(std::uint32_t of_plan) {
    return broadcast_number(of_plan, kRoots, kMostBroadcastRounds - 1);
}
[[nodiscard]] constexpr bool is_broadcast(std::uint64_t number) {
    return (number & kBroadcast) != 0 && number != last_number(round_of_plan(number));
}
[[nodiscard]] constexpr int root_of(std::uint64_t number) {
    return static_cast<int>((number % kBroadcast) >> kFurtherBits);
}

struct PairMessages {
    std::vector<Message> messages;
    std::vector<Packed> packed;
    std::vector<Round> rounds;  ///< never empty
    /// Of the source's broadcasts, by world rank, ascending, itself among them; empty: there are
    /// none. They get the same ranges in its broadcast rounds.
    std::vector<int> members;
    [[nodiscard]] Bytes bytes() const;
    [[nodiscard]] Bytes broadcast_bytes() const;
    /// With the first round, and with those that would else carry nothing: none is a broadcast.
    [[nodiscard]] bool carries_epoch(std::size_t round) const {
        return round == 0 || (messages_of(round).empty() && rounds[round].packed_bytes == 0);
    }
    /// When the destination says that all is there.
    [[nodiscard]] std::uint64_t answer_number() const {
        const std::uint64_t last = rounds.back().number;
        return is_broadcast(last) ? last_number(round_of_plan(last)) : last + 2;
    }
    [[nodiscard]] std::span<const Message> messages_of(std::size_t round) const;
    [[nodiscard]] std::span<const Packed> packed_of(std::size_t round) const;
};

/// The copies of one pair, in the plan's order. Long ranges are dealt out over the rounds, so that
/// they travel while the kernel packs what goes next.
[[nodiscard]] PairMessages cut_messages(std::span<const plan::Copy> copies,
                                        const MessageRules& rules);
/// Rounds of a plan in which what `root` sends goes by broadcasts.
struct BroadcastRounds {
    int root = 0;
    std::span<const std::uint32_t> rounds;  ///< ascending
};
/// The same for the pair's segments (ends in `copies`), each in rounds of its own round's numbers.
/// Without any: all copies at once.
[[nodiscard]] PairMessages cut_segments(std::span<const plan::Copy> copies,
                                        std::span<const Segment> segments,
                                        const MessageRules& rules,
                                        const BroadcastRounds& broadcasts = {});
/// The ranges of copies, joined where they touch.
[[nodiscard]] std::vector<Message> ranges_of(std::span<const plan::Copy> copies);

/// Throws TransportError, naming `peer`, where a list that it has told is not well formed or leaves
/// this rank's `arena_bytes`.
void check_messages(const PairMessages& list, Bytes arena_bytes, const std::string& peer);

}  // namespace weightlift::transport::nccl
