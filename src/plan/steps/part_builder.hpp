// Collects one rank's segments in any order, and what they wait for by name, and puts both into the
// order of execution.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "weightlift/plan/steps.hpp"

namespace weightlift::plan::steps {

/// Where a segment stands in its source's list. Of one source and destination no two are equal;
/// both ends must work out the same.
struct Key {
    std::uint32_t round = 0;
    std::uint32_t order = 0;  ///< within the round
    std::uint64_t id = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
};

class PartBuilder {
public:
    explicit PartBuilder(Rank self) : self_(self) {}

    using Handle = std::size_t;
    /// To itself: the segment is received as well.
    Handle send(Rank destination, std::uint32_t step, const Key& key, std::vector<Copy> copies);
    void receive(Rank source, std::uint32_t step, const Key& key, std::vector<Copy> copies);

    /// `sent` waits until the segment of this key from another rank has been placed here.
    void wait_for(Handle sent, Rank source, const Key& key);
    /// `sent` waits until `earlier`, of a smaller round, has been placed.
    void wait_for_own(Handle sent, Handle earlier);

    [[nodiscard]] StepPart finish(Bytes staging) &&;

private:
    struct Entry {
        Key key;
        StepSegment segment;
    };
    struct Wait {
        Handle sent = 0;
        Rank source = 0;
        Key key;             ///< of another rank's segment
        Handle earlier = 0;  ///< of this rank's own
    };
    Rank self_;
    std::vector<Entry> sent_, received_;
    std::vector<Wait> waits_;
};

}  // namespace weightlift::plan::steps
