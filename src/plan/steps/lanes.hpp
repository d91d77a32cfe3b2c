// How bytes spread over nodes: groups of ranks that share one, lanes that run through the groups,
// and chunks that take the lanes in turn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/base/bytes.hpp"

namespace weightlift::plan::steps {

/// Ranks by node, in order of their first ranks. The largest group has a lane for each member; in a
/// smaller one a member serves several.
class Groups {
public:
    struct Seat {
        std::size_t group = 0, member = 0;
    };

    /// `node`: as in StepOptions, by these ranks.
    Groups(std::span<const Rank> ranks, const std::vector<int>& node);

    [[nodiscard]] std::size_t size() const { return groups_.size(); }
    [[nodiscard]] std::size_t lanes() const { return lanes_; }
    [[nodiscard]] const std::vector<Rank>& members(std::size_t group) const {
        return groups_[group];
    }
    [[nodiscard]] std::size_t member_of_lane(std::size_t group, std::size_t lane) const {
        return lane * groups_[group].size() / lanes_;
    }
    [[nodiscard]] Rank of_lane(std::size_t group, std::size_t lane) const {
        return groups_[group][member_of_lane(group, lane)];
    }
    /// Of a rank in these groups; anything else is our bug.
    [[nodiscard]] Seat seat_of(Rank rank) const;

private:
    std::vector<std::vector<Rank>> groups_;
    std::vector<std::pair<Rank, Seat>> seats_;  ///< ascending
    std::size_t lanes_ = 0;
};

/// A range of bytes cut into equal chunks, up to alignment, for a number of seats in turn: as many
/// chunks for each seat, unless there is so little that they would be too small.
class Chunks {
public:
    /// `rotation`: where a range that is too small for all seats begins.
    Chunks(Bytes bytes, std::uint64_t seats, Bytes chunk, std::uint64_t rotation);

    [[nodiscard]] std::uint64_t count() const { return count_; }
    [[nodiscard]] Bytes begin(std::uint64_t chunk) const;
    [[nodiscard]] std::uint64_t at(Bytes address) const;
    [[nodiscard]] std::uint64_t seat(std::uint64_t chunk) const {
        return (chunk * stride_ + rotation_) % seats_;
    }
    /// How often all seats have had their turn before this chunk.
    [[nodiscard]] std::uint64_t turn(std::uint64_t chunk) const { return chunk / seats_; }
    [[nodiscard]] std::uint64_t turns() const { return (count_ + seats_ - 1) / seats_; }
    [[nodiscard]] std::uint64_t seats() const { return seats_; }

private:
    Bytes bytes_;
    std::uint64_t seats_, count_, stride_ = 1, rotation_;
};

}  // namespace weightlift::plan::steps
