// What a rank's segments wait for, over all backends that carry them: the push asks this, not the
// backends, since a segment that leaves by one may wait for bytes that come by another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weightlift/plan/steps.hpp"
#include "weightlift/transport/transport.hpp"

namespace weightlift::session {

class HeldSegments {
public:
    /// One backend's place in the push.
    struct Carrier {
        transport::Push* push = nullptr;
        std::vector<int> sources;  ///< as in its BoundPlan
    };
    /// `carrier_of[i]`: which of `carriers` takes segment i of `part.sent`, each in that order.
    /// `mpi_rank` of a plan rank. A gate on a rank that is no source of any carrier is our bug.
    HeldSegments(const plan::StepPart& part, Rank self, std::span<const std::size_t> carrier_of,
                 std::vector<Carrier> carriers, const std::function<int(Rank)>& mpi_rank);

    /// The pushes have been started.
    void start();
    /// Allows what waits no longer. No allocation.
    void allow();

private:
    /// Segments from `segment` on, of one carrier, wait for a count of another.
    struct Hold {
        std::size_t segment = 0;
        std::size_t carrier = 0;  ///< whose count
        std::size_t source = 0;   ///< index there; kOwn: segments placed from here
        std::uint32_t count = 0;
    };
    static constexpr std::size_t kOwn = ~std::size_t{0};
    struct Queue {
        std::size_t segments = 0;
        std::vector<Hold> holds;  ///< by segment
        std::size_t next = 0;     ///< hold
        std::size_t allowed = 0;
    };
    [[nodiscard]] bool is_over(const Hold& hold) const;

    std::vector<Carrier> carriers_;
    std::vector<Queue> queues_;  ///< by carrier
};

}  // namespace weightlift::session
