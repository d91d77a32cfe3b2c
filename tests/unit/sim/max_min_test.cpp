#include "weightlift/sim/max_min.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace weightlift::sim {
namespace {

struct Flows {
    std::vector<Use> uses;
    std::vector<std::uint32_t> begins{0};
    void add(std::vector<Use> of) {
        uses.insert(uses.end(), of.begin(), of.end());
        begins.push_back(static_cast<std::uint32_t>(uses.size()));
    }
    [[nodiscard]] std::size_t size() const { return begins.size() - 1; }
};

std::vector<double> rates_of(const Flows& flows, const std::vector<double>& capacities) {
    Sharing sharing(flows.uses, flows.begins, capacities.size());
    for (std::uint32_t f = 0; f < flows.size(); ++f) sharing.activate(f);
    std::vector<double> rates(flows.size());
    sharing.share(capacities, rates);
    return rates;
}

TEST(Sharing, gives_what_others_cannot_take_to_the_rest) {
    // Links of 10 and 4: the second is full at 2 each, the first leaves 8 to its own flow.
    Flows flows;
    flows.add({{0, 1}});
    flows.add({{0, 1}, {1, 1}});
    flows.add({{1, 1}});
    EXPECT_EQ(rates_of(flows, {10, 4}), (std::vector<double>{8, 2, 2}));
}

TEST(Sharing, counts_a_flow_by_its_weight) {
    Flows flows;
    flows.add({{0, 3}});
    flows.add({{0, 1}});
    EXPECT_EQ(rates_of(flows, {8}), (std::vector<double>{2, 2}));
}

TEST(Sharing, of_a_flow_through_nothing_has_no_bound) {
    Flows flows;
    flows.add({});
    EXPECT_TRUE(std::isinf(rates_of(flows, {8})[0]));
}

TEST(Sharing, forgets_flows_that_ended) {
    Flows flows;
    flows.add({{0, 1}});
    flows.add({{0, 1}});
    Sharing sharing(flows.uses, flows.begins, 1);
    const std::vector<double> capacities{10};
    std::vector<double> rates(2);
    sharing.activate(0);
    sharing.activate(1);
    sharing.share(capacities, rates);
    EXPECT_EQ(rates, (std::vector<double>{5, 5}));
    sharing.deactivate(0);
    sharing.share(capacities, rates);
    EXPECT_EQ(rates, (std::vector<double>{0, 10}));
}

/// Random flows over 2 to 4 of 12 resources.
struct Random {
    Flows flows;
    std::vector<double> capacities;
    explicit Random(unsigned seed) {
        std::mt19937 engine(seed);
        const auto below = [&](unsigned n) { return static_cast<std::uint32_t>(engine() % n); };
        for (int r = 0; r < 12; ++r) capacities.push_back(1 + below(20));
        const std::uint32_t count = 1 + below(40);
        for (std::uint32_t f = 0; f < count; ++f) {
            std::vector<Use> uses;
            const std::uint32_t first = below(12), length = 2 + below(3);
            for (std::uint32_t u = 0; u < length; ++u)
                uses.push_back({(first + 5 * u) % 12, 0.5 + 0.5 * below(4)});
            flows.add(uses);
        }
    }
};

TEST(Sharing, fills_no_resource_beyond_its_rate_and_leaves_no_flow_that_could_grow) {
    for (unsigned seed = 0; seed < 500; ++seed) {
        const Random random(seed);
        const std::vector<double> rates = rates_of(random.flows, random.capacities);
        std::vector<double> used(random.capacities.size()), most(random.capacities.size());
        for (std::size_t f = 0; f < rates.size(); ++f)
            for (auto u = random.flows.begins[f]; u < random.flows.begins[f + 1]; ++u) {
                const Use& use = random.flows.uses[u];
                used[use.resource] += use.weight * rates[f];
                most[use.resource] = std::max(most[use.resource], rates[f]);
            }
        for (std::size_t r = 0; r < used.size(); ++r)
            ASSERT_LE(used[r], random.capacities[r] * (1 + 1e-9)) << seed;
        // Max-min: each flow has a full resource on which no flow is faster.
        for (std::size_t f = 0; f < rates.size(); ++f) {
            bool is_bound = false;
            for (auto u = random.flows.begins[f]; u < random.flows.begins[f + 1]; ++u) {
                const std::uint32_t r = random.flows.uses[u].resource;
                is_bound = is_bound || (used[r] > random.capacities[r] * (1 - 1e-9) &&
                                        rates[f] > most[r] * (1 - 1e-9));
            }
            ASSERT_TRUE(is_bound) << seed << ", flow " << f;
        }
        ASSERT_EQ(rates, rates_of(random.flows, random.capacities)) << seed;
    }
}

}  // namespace
}  // namespace weightlift::sim
