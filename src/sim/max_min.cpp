#include "weightlift/sim/max_min.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "weightlift/base/error.hpp"

namespace weightlift::sim {

Sharing::Sharing(std::vector<Use> uses, std::vector<std::uint32_t> begins, std::size_t resources)
    : uses_(std::move(uses)), begins_(std::move(begins)), resources_(resources) {
    is_active_.resize(begins_.size() - 1);
    for (const Use& use : uses_) ++resources_[use.resource].listed;
    std::uint32_t begin = 0;
    for (Resource& resource : resources_) {
        resource.begin = begin;
        begin += std::exchange(resource.listed, 0);
    }
    flows_of_.resize(begin);
    left_.resize(resources);
    weight_.resize(resources);
    open_.resize(resources);
}

void Sharing::activate(std::uint32_t flow) {
    WEIGHTLIFT_ENSURES(!is_active_[flow]);
    is_active_[flow] = true;
    added_.push_back(flow);
    for (std::uint32_t u = begins_[flow]; u < begins_[flow + 1]; ++u) {
        Resource& resource = resources_[uses_[u].resource];
        resource.weight += uses_[u].weight;
        ++resource.active;
        // A flow is active once, so that the list has room.
        flows_of_[resource.begin + resource.listed++] = flow;
    }
}

void Sharing::deactivate(std::uint32_t flow) {
    WEIGHTLIFT_ENSURES(is_active_[flow]);
    is_active_[flow] = false;
    for (std::uint32_t u = begins_[flow]; u < begins_[flow + 1]; ++u) {
        Resource& resource = resources_[uses_[u].resource];
        resource.weight -= uses_[u].weight;
        --resource.active;
    }
}

void Sharing::share(std::span<const double> capacities, std::span<double> rates) {
    constexpr double kOpen = -1;
    std::erase_if(added_, [&](std::uint32_t flow) {
        rates[flow] = 0;
        return !is_active_[flow];
    });
    for (const std::uint32_t flow : added_)
        rates[flow] =
            begins_[flow] == begins_[flow + 1] ? std::numeric_limits<double>::infinity() : kOpen;
    // Level at which a resource would be full, and the resource. Levels only rise as other
    // resources fill up, so that an old entry comes too early, never too late.
    using Entry = std::pair<double, std::uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
    const auto level_of = [&](std::uint32_t r) { return std::max(0.0, left_[r]) / weight_[r]; };
    for (std::uint32_t r = 0; r < resources_.size(); ++r) {
        Resource& resource = resources_[r];
        if (resource.active < resource.listed) {
            const auto first = flows_of_.begin() + resource.begin;
            resource.listed = static_cast<std::uint32_t>(
                std::remove_if(first, first + resource.listed,
                               [&](std::uint32_t flow) { return !is_active_[flow]; }) -
                first);
        }
        open_[r] = resource.active;
        if (resource.active == 0) {
            resource.weight = 0;  // forget rounding
            continue;
        }
        left_[r] = capacities[r];
        weight_[r] = resource.weight;
        next.emplace(level_of(r), r);
    }
    while (!next.empty()) {
        const auto [level, r] = next.top();
        next.pop();
        if (open_[r] == 0) continue;
        if (const double now = level_of(r); now > level) {
            next.emplace(now, r);
            continue;
        }
        const Resource& full = resources_[r];
        for (std::uint32_t i = full.begin; i < full.begin + full.listed; ++i) {
            const std::uint32_t flow = flows_of_[i];
            if (rates[flow] != kOpen) continue;
            rates[flow] = level;
            for (std::uint32_t u = begins_[flow]; u < begins_[flow + 1]; ++u) {
                const Use& use = uses_[u];
                left_[use.resource] -= use.weight * level;
                weight_[use.resource] -= use.weight;
                --open_[use.resource];
            }
        }
    }
}

}  // namespace weightlift::sim
