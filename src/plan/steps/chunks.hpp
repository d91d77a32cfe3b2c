// How bytes spread over lanes and groups: in chunks that take them in turn.
#pragma once

#include <cstdint>

#include "weightlift/base/bytes.hpp"

namespace weightlift::plan::steps {

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
