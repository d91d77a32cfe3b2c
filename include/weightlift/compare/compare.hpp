// Compares launches with earlier ones, case by case. Pure: launches in, verdicts out.
//
// The time of a push decides; phases and ranks explain. A case is slower where the exact rank test
// gives p < 0.05 after Holm's correction over all cases and the shift exceeds the threshold. It is
// the same where the interval of the shift lies within the threshold. Everything else is
// inconclusive: noise that could hide a regression is not a proof that there is none.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weightlift/base/error.hpp"
#include "weightlift/compare/causes.hpp"
#include "weightlift/compare/gate.hpp"
#include "weightlift/compare/launch.hpp"
#include "weightlift/compare/references.hpp"
#include "weightlift/compare/shift.hpp"

namespace weightlift::compare {

inline constexpr double kLevel = 0.05;
inline constexpr std::size_t kLeastLaunches = 4;  ///< a side; 3 against 3 give no p below 0.1

enum class Verdict { Same, Faster, Slower, Inconclusive, WrongData, Missing };
[[nodiscard]] std::string_view to_string(Verdict verdict);  ///< "same", …, "wrong data", "missing"

struct Options {
    double threshold = 0.05;  ///< of the base's median time
    /// Nights: 0 compares two sides of launches. N holds one new launch against the last N of base
    /// by the one-sided p of its rank, 1/(N+1) where it is slower than all.
    std::size_t history = 0;
    std::vector<Reference> references;  ///< what the new side must keep
};

struct CaseResult {
    std::string key;  ///< the launches' name
    Verdict verdict = Verdict::Inconclusive;
    std::string reason;  ///< why it is inconclusive, wrong or missing; else empty
    std::size_t base_launches = 0, new_launches = 0;
    std::optional<double> base_ns, new_ns;  ///< medians over launches
    std::optional<Shift> shift_ns;
    std::optional<double> p, adjusted_p;  ///< none where nothing was tested
    bool is_exact = true;
    std::vector<Cause> causes;  ///< of a case that is slower or faster
    std::string in_common;      ///< the host or NIC that all of several causes share
    Slowest base_slowest, new_slowest;
    std::vector<OutOfBounds> out_of_bounds;

    /// The shift as a share of the base's median.
    [[nodiscard]] std::optional<double> change() const;
};

struct Comparison {
    std::vector<CaseResult> cases;        ///< those of base, in its order
    std::vector<Difference> differences;  ///< of provenance: named, not judged
    std::vector<std::string> notes;       ///< launches left out, cases that are new
};

/// Error (NotComparable) naming every field that differs; ConfigError where history is given and
/// the new side has several launches of a case.
[[nodiscard]] Comparison compare(std::span<const Launch> base, std::span<const Launch> next,
                                 const Options& options);

enum class MissingCases { Fail, Allow };
enum class Inconclusive { Pass, Fail };
/// Regression for a case that is slower, wrong, out of its bounds, missing or inconclusive unless
/// that may be.
[[nodiscard]] ExitCode judge(const Comparison& comparison, MissingCases missing,
                             Inconclusive inconclusive);

}  // namespace weightlift::compare
