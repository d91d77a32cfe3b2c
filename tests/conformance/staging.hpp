// Which ranks of a test share what they stage. As between hosts, others are reached by messages.
#pragma once

#include <cstdlib>
#include <string>

namespace weightlift::transport {

/// WEIGHTLIFT_TEST_STAGING: shared (where it is not set), apart, or mixed: of every second rank.
inline bool shares_staging(int rank) {
    const char* const asked = std::getenv("WEIGHTLIFT_TEST_STAGING");
    const std::string how = asked == nullptr ? "shared" : asked;
    return how == "shared" || (how == "mixed" && rank % 2 == 0);
}

}  // namespace weightlift::transport
