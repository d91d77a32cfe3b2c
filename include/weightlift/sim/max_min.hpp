// Max-min fair rates: the part of the simulator that has laws of its own. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weightlift::sim {

/// A flow at rate r takes `weight` * r of a resource.
struct Use {
    std::uint32_t resource = 0;
    double weight = 1;
};

/// Flows over resources. Flows are added once; those that are active share.
class Sharing {
public:
    /// `uses` of flow f are [begins[f], begins[f + 1]); weights positive. All are inactive at
    /// first.
    Sharing(std::vector<Use> uses, std::vector<std::uint32_t> begins, std::size_t resources);

    void activate(std::uint32_t flow);
    void deactivate(std::uint32_t flow);

    /// Raises the rates of all active flows together until a resource is full; its flows keep that
    /// rate, the others rise on. A flow without uses gets an infinite rate. `rates` of inactive
    /// flows are 0 afterwards. O(uses of active flows + resources log resources).
    void share(std::span<const double> capacities, std::span<double> rates);

private:
    struct Resource {
        double weight = 0;         ///< of active flows
        std::uint32_t active = 0;  ///< flows; weight may not come back to exactly 0
        std::uint32_t listed = 0;
        std::uint32_t begin = 0;  ///< first of its entries in flows_of_
    };
    std::vector<Use> uses_;
    std::vector<std::uint32_t> begins_;
    std::vector<bool> is_active_;
    std::vector<Resource> resources_;
    std::vector<std::uint32_t> flows_of_;  ///< by resource
    std::vector<std::uint32_t> added_;     ///< active flows and some that ended since
    // Scratch of share()
    std::vector<double> left_, weight_;
    std::vector<std::uint32_t> open_;
};

}  // namespace weightlift::sim
