#include <fmt/format.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/plan/steps.hpp"

#include "strategy_plan.hpp"

namespace weightlift::plan {

namespace {

constexpr std::string_view kNames[] = {"direct", "replica", "broadcast", "relay"};

}  // namespace

std::string_view to_string(Strategy strategy) { return kNames[static_cast<std::size_t>(strategy)]; }

std::optional<Strategy> find_strategy(std::string_view name) {
    for (std::size_t i = 0; i < std::size(kNames); ++i)
        if (kNames[i] == name) return static_cast<Strategy>(i);
    return std::nullopt;
}

struct StepPlanner::State {
    std::unique_ptr<const steps::StrategyPlan> plan;
};

namespace {

std::unique_ptr<const steps::StrategyPlan> make(const Planner& planner, Strategy strategy,
                                                const StepOptions& options) {
    WEIGHTLIFT_ENSURES(options.chunk > 0);
    WEIGHTLIFT_ENSURES(options.node.empty() ||
                       options.node.size() == static_cast<std::size_t>(planner.world_size()));
    WEIGHTLIFT_ENSURES(options.stages > 0 && planner.trainers() % options.stages == 0);
    switch (strategy) {
        case Strategy::Relay: return steps::make_relay(planner, options);
        case Strategy::Broadcast: return steps::make_broadcast(planner, options);
        case Strategy::Replica: return steps::make_replica(planner, options);
        case Strategy::Direct: break;
    }
    throw Error(ExitCode::Internal, "direct has no steps");
}

}  // namespace

StepPlanner::StepPlanner(const Planner& planner, Strategy strategy, const StepOptions& options)
    : state_(std::make_unique<const State>(State{make(planner, strategy, options)})) {}
StepPlanner::~StepPlanner() = default;
StepPlanner::StepPlanner(StepPlanner&&) noexcept = default;
StepPlanner& StepPlanner::operator=(StepPlanner&&) noexcept = default;

std::span<const std::string_view> StepPlanner::steps() const { return state_->plan->steps(); }

StepPart StepPlanner::part_of(Rank plan_rank) const {
    WEIGHTLIFT_ENSURES(plan_rank >= 0);
    return state_->plan->part_of(plan_rank);
}

std::uint64_t StepPlanner::digest(std::span<const StepSegment> segments) {
    std::uint64_t sum = 0;
    for (const StepSegment& segment : segments) {
        std::uint64_t h = splitmix64(segment.copies.size());
        const auto add = [&](auto value) { h = mix(h, static_cast<std::uint64_t>(value)); };
        add(segment.src);
        add(segment.dst);
        add(segment.step);
        add(segment.round);
        for (const Copy& copy : segment.copies)
            for (const std::uint64_t value : {copy.src_offset, copy.src_pitch, copy.dst_offset,
                                              copy.dst_pitch, copy.rows, copy.row_bytes})
                add(value);
        sum += h;
    }
    return sum;
}

}  // namespace weightlift::plan
