// push --preflight: doctor's checks before anything is pushed.
#pragma once

#include "doctor/facts.hpp"
#include "doctor/write_check.hpp"

namespace weightlift::app {

/// Collective. Rank 0 prints what is not in order to stderr. Throws AgreedError on all ranks (exit
/// code 3) where anything failed.
void run_preflight(const doctor::Ward& ward, const doctor::Asked& asked);

}  // namespace weightlift::app
