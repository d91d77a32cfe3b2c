// Staging is cut into slots that buckets take in turn.
#pragma once

#include "weightlift/plan/copy.hpp"
#include "weightlift/plan/steps.hpp"

namespace weightlift::plan::steps {

/// Two buckets are under way at any rank: one goes out while the next comes in.
inline constexpr Bytes kSlots = 2;

/// The most bytes of a slot.
[[nodiscard]] inline Bytes most_slot_bytes(const StepOptions& options) {
    return options.staging_limit / kSlots / kArenaAlignment * kArenaAlignment;
}

}  // namespace weightlift::plan::steps
