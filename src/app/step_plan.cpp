#include "step_plan.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "spread.hpp"
#include "text.hpp"

namespace weightlift::app {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rank most(const std::vector<Bytes>& of_rank) {
    return static_cast<Rank>(std::max_element(of_rank.begin(), of_rank.end()) - of_rank.begin());
}

/// Of ranks [begin, end).
std::string spread(const std::vector<Bytes>& of_rank, Rank begin, Rank end) {
    Spread all;
    for (Rank rank = begin; rank < end; ++rank) all.add(of_rank[static_cast<std::size_t>(rank)]);
    return show(all, human_bytes);
}

}  // namespace

StepTotals::Step StepTotals::sum() const {
    Step all;
    for (const Step& step : steps) {
        all.segments += step.segments;
        all.credits += step.credits;
        all.copies += step.copies;
        all.moved += step.moved;
        all.within += step.within;
    }
    return all;
}

StepTotals gather_totals(const plan::Planner& planner, const plan::StepPlanner& stepper) {
    StepTotals totals;
    totals.steps.resize(stepper.steps().size());
    const auto ranks = static_cast<std::size_t>(planner.world_size());
    totals.sent.resize(ranks);
    totals.received.resize(ranks);
    for (Rank rank = 0; rank < planner.world_size(); ++rank) {
        const plan::StepPart part = stepper.part_of(rank);
        std::set<Rank> peers;
        for (const plan::StepSegment& segment : part.sent) {
            StepTotals::Step& step = totals.steps[segment.step];
            const Bytes bytes = segment.bytes();
            ++(segment.copies.empty() ? step.credits : step.segments);
            step.copies += segment.copies.size();
            if (segment.dst == rank) {
                step.within += bytes;
                continue;
            }
            step.moved += bytes;
            totals.sent[static_cast<std::size_t>(rank)] += bytes;
            totals.received[static_cast<std::size_t>(segment.dst)] += bytes;
            if (bytes > 0) peers.insert(segment.dst);
        }
        totals.pairs += peers.size();
        totals.gates += part.gates.size();
        totals.staging.push_back(part.staging);
        totals.digest += plan::StepPlanner::digest(part.sent);
    }
    return totals;
}

std::string step_plan_text(const StepPlanInputs& in, const StepTotals& totals) {
    const StepTotals::Step all = totals.sum();
    std::string text = fmt::format(
        "plan     {:016x}, {}: {} between {} pairs of ranks in {} segments, {} copies\n\n",
        totals.digest, to_string(in.strategy), human_bytes(all.moved), totals.pairs, all.segments,
        all.copies);
    Rows rows{{"step", "between ranks", "within ranks", "segments", "copies", "credits"}};
    for (std::size_t i = 0; i < totals.steps.size(); ++i) {
        const StepTotals::Step& step = totals.steps[i];
        rows.push_back({std::string(in.stepper.steps()[i]), human_bytes(step.moved),
                        human_bytes(step.within), std::to_string(step.segments),
                        std::to_string(step.copies), std::to_string(step.credits)});
    }
    text += align(rows) + "\n";
    const Rank trainers = in.planner.trainers(), end = in.planner.world_size();
    Rows ranks{{"per rank: min / mean / max", "sent", "received", "staging"}};
    for (const auto& [who, from, to] :
         {std::tuple{"trainer", Rank{0}, trainers}, std::tuple{"rollout", trainers, end}})
        ranks.push_back({who, spread(totals.sent, from, to), spread(totals.received, from, to),
                         spread(totals.staging, from, to)});
    text += align(ranks) + "\n";
    const Rank out = most(totals.sent), into = most(totals.received), stages = most(totals.staging);
    const auto at = [](const std::vector<Bytes>& of_rank, Rank rank) {
        return human_bytes(of_rank[static_cast<std::size_t>(rank)]);
    };
    text += fmt::format("busiest: rank {} sends {}, rank {} receives {}\n", out,
                        at(totals.sent, out), into, at(totals.received, into));
    if (const Bytes bytes = totals.staging[static_cast<std::size_t>(stages)]; bytes > 0)
        text += fmt::format("staging: at most {} (rank {}), limit {}\n", human_bytes(bytes), stages,
                            human_bytes(in.staging_limit));
    else
        text += "staging: none\n";
    return text;
}

}  // namespace weightlift::app
