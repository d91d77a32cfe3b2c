// Whether both ends of every pair count the same segments, for backends whose ends meet in prepare.
#pragma once

#include <string_view>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport {

/// Collective over the linked ranks. Throws TransportError, naming `backend` and the peer, at both
/// ends of a pair whose source has more or fewer segments than its destination expects, so that
/// neither waits for the other. After anything else that prepare exchanges, for the same reason.
void agree_on_signals(const BoundPlan& plan, const Context& context, std::string_view backend);

}  // namespace weightlift::transport
