// One case: set up a session, push as often as asked, verify, tell an observer. The same for push,
// which has one case, and sweep, which has many.
#pragma once

#include <cstdint>
#include <vector>

#include "weightlift/session/session.hpp"

#include "inputs.hpp"
#include "push_options.hpp"

namespace weightlift::app {

/// The ranks that take part in a case.
struct Stage {
    const session::Agreement& agreement;
    mpi::Watchdog& watchdog;
    const session::Topology& topology;
    [[nodiscard]] const mpi::Communicator& world() const { return agreement.world(); }
};

/// Hears of a case, on every rank; what it hears is complete at rank 0. May throw.
class CaseObserver {
public:
    virtual ~CaseObserver() = default;
    CaseObserver(const CaseObserver&) = delete;
    CaseObserver& operator=(const CaseObserver&) = delete;

    virtual void begin(session::Session::Description description) = 0;
    virtual void reference(std::uint64_t ns) = 0;
    virtual void iteration(const record::Sample& sample, const session::Verification& checked) = 0;
    virtual void nics(std::vector<record::NicRow> rows) = 0;

protected:
    CaseObserver() = default;
};

/// What a case works on.
struct CaseInputs {
    Scene scene;
    session::Roles roles;
};
/// Collective. Loads models and layouts, deals out the roles (--roles, --role of each rank, or
/// trainers first), and makes sure that all ranks have the same. AgreedError otherwise, and where
/// the ranks are not as many as the layouts need.
[[nodiscard]] CaseInputs load_case(const session::Agreement& agreement,
                                   const PushArguments& arguments);

/// Collective. WrongData where any push was not right, else Ok. Throws AgreedError on all ranks
/// where the case failed; its memory and connections are given back either way.
[[nodiscard]] ExitCode run_case(const Stage& stage, const PushArguments& arguments,
                                const CaseInputs& inputs, CaseObserver& observer);

}  // namespace weightlift::app
