// Where the time of an update went: floor, strategy, named phases, and what is left unexplained.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "weightlift/record/h5_file.hpp"
#include "weightlift/sim/strategies.hpp"

namespace weightlift::app {

struct NamedSeconds {
    std::string name;
    double seconds = 0;
};

/// "pause=0.1,gather=2s,post=884ms"; ConfigError naming `flag` for anything else.
[[nodiscard]] std::vector<NamedSeconds> parse_phases(const std::string& text, const char* flag);

/// What is to be added up, in order.
struct Explanation {
    std::string title;
    struct Line {
        std::string name;
        std::optional<double> seconds;  ///< absent: not known
        std::string why;
    };
    std::vector<Line> lines;
    double observed = 0;
};

/// `floor`: what `direct` needs at least, or the strategy itself where that is less.
/// A phase with the name of a step of the strategy stands in for the model of that step.
[[nodiscard]] Explanation explain(const sim::StrategyPrediction& strategy,
                                  const sim::Prediction& floor, const sim::Fabric& fabric,
                                  double observed, const std::vector<NamedSeconds>& phases);
/// Of one case of a results file: the iteration at p50, and the rank whose phases add up to most
/// in it. Nothing where no iteration was measured and right.
[[nodiscard]] std::optional<Explanation> explain(const record::CaseRecord& one);

/// Lines with their shares, then the remainder and the sum. The remainder gets no name but
/// "unexplained"; where lines add up to more than was observed it says so.
[[nodiscard]] std::string explanation_text(const Explanation& explanation);
/// The same for machines, schema weightlift-explanation/1 (README, "Prediction"). One without lines
/// is of a case of which no iteration was measured and right.
[[nodiscard]] std::string explanations_json(const std::vector<Explanation>& explanations);

}  // namespace weightlift::app
