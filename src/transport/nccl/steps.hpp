// A rank's part of a push as a row of groups: what each packs, carries, unpacks and waits for.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "../pieces.hpp"
#include "messages.hpp"

namespace weightlift::transport::nccl {

/// One destination, or one source, and how far a push is with it.
struct Pair {
    int rank = 0, index = 0;  ///< of the world, of the communicator
    PairMessages list;
    Bytes bytes = 0;
    std::vector<Bytes> staging;            ///< by round: where its packed message lies
    std::size_t last_step = 0;             ///< of its rounds
    std::size_t posted = 0, finished = 0;  ///< rounds
    std::uint32_t signals = 0;             ///< of a source: segments that are there
    bool is_done = false;
    bool is_local = false;  ///< of the rank with itself, and copied by a kernel of its own
    /// Whether its round `next` is the one of that number.
    [[nodiscard]] bool has(std::size_t next, std::uint64_t number) const {
        return next < list.rounds.size() && list.rounds[next].number == number;
    }
};

struct Step {
    struct Range {
        std::size_t begin = 0, end = 0;
        [[nodiscard]] std::size_t size() const { return end - begin; }
    };
    std::uint64_t number = 0;
    Range pack, unpack, local;  ///< pieces; local ones from arena to arena
    bool brings_mail = false;   ///< epochs, from sources or back from destinations
    std::size_t needs = 0;      ///< segments that must be allowed
    std::size_t placed = 0;     ///< leading segments that have travelled with it and those before
    /// Whether something follows on this rank once the group is done.
    [[nodiscard]] bool has_more() const {
        return brings_mail || unpack.size() > 0 || local.size() > 0;
    }
};

struct Steps {
    std::vector<Step> list;     ///< ascending
    std::vector<Piece> pieces;  ///< of all; offsets in the arena and the staging
    Bytes staging_bytes = 0;
};

/// Of a rank with so many pairs, at least one. Gives the pairs their staging and last steps.
[[nodiscard]] Steps make_steps(std::vector<Pair>& destinations, std::vector<Pair>& sources,
                               std::span<const Segment> segments);

}  // namespace weightlift::transport::nccl
