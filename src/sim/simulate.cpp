#include "weightlift/sim/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weightlift/sim/max_min.hpp"

namespace weightlift::sim {

namespace {

/// Up to here every end is a moment of its own.
constexpr std::size_t kExactFlows = 4096;
constexpr double kResolution = 1.0 / 2000;

/// Two resources a port: its bytes, and its messages.
Sharing make_sharing(std::span<const Flow> flows, const Fabric& fabric) {
    std::vector<Use> uses;
    std::vector<std::uint32_t> begins{0};
    for (const Flow& flow : flows) {
        if (flow.bytes > 0) {
            const auto path = fabric.path(flow.src, flow.dst);
            for (const std::uint32_t port : path.all()) {
                uses.push_back({port, 1});
                if (flow.messages > 0 && fabric.message_rate(port) > 0)
                    uses.push_back({fabric.ports() + port, static_cast<double>(flow.messages) /
                                                               static_cast<double>(flow.bytes)});
            }
        }
        begins.push_back(narrow<std::uint32_t>(uses.size(), "uses of ports by flows"));
    }
    return Sharing(std::move(uses), std::move(begins), 2 * std::size_t{fabric.ports()});
}

class Simulator {
public:
    Simulator(std::span<const Flow> flows, const Fabric& fabric, Order order)
        : flows_(flows), fabric_(fabric), sharing_(make_sharing(flows, fabric)) {
        for (std::uint32_t port = 0; port < fabric.ports(); ++port)
            capacities_.push_back(fabric.rate(port));
        for (std::uint32_t port = 0; port < fabric.ports(); ++port)
            capacities_.push_back(fabric.message_rate(port));
        result_.flow_seconds.resize(flows.size());
        rates_.resize(flows.size());
        queue_flows(order);
        // Ends of flows that share a port are spread over its n flows, each of which has 1/n of it:
        // what coalescing wastes is resolution * (1 + 1/2 + … + 1/n) at most.
        if (flows.size() > kExactFlows && order == Order::Rotated)
            resolution_ = kResolution * predict(flows, fabric, 0).seconds();
    }

    Simulation run() && {
        double now = 0;
        while (!active_.empty()) {
            lower_incast();
            sharing_.share(capacities_, rates_);
            ++result_.moments;
            double first = std::numeric_limits<double>::infinity();
            for (const std::uint32_t f : active_) first = std::min(first, left_[f] / rates_[f]);
            advance(now, first + resolution_);
            now += first + resolution_;
        }
        for (const double end : result_.flow_seconds)
            result_.seconds = std::max(result_.seconds, end);
        if (result_.seconds > 0) result_.seconds += fabric_.cluster().latency;
        return std::move(result_);
    }

private:
    void queue_flows(Order order) {
        left_.reserve(flows_.size());
        for (const Flow& flow : flows_) left_.push_back(static_cast<double>(flow.bytes));
        waiting_.resize(static_cast<std::size_t>(fabric_.ranks()));
        destinations_.resize(waiting_.size());
        std::vector<std::uint32_t> by_destination(flows_.size());
        std::iota(by_destination.begin(), by_destination.end(), 0U);
        // Last first: the next one is at the back.
        std::stable_sort(
            by_destination.begin(), by_destination.end(),
            [&](std::uint32_t a, std::uint32_t b) { return flows_[a].dst > flows_[b].dst; });
        for (const std::uint32_t f : by_destination) {
            // What stays in a rank takes no time.
            if (flows_[f].bytes == 0 || flows_[f].src == flows_[f].dst) continue;
            waiting_[static_cast<std::size_t>(flows_[f].src)].push_back(f);
        }
        for (auto& queue : waiting_)
            while (!queue.empty()) {
                start(queue.back());
                queue.pop_back();
                if (order == Order::Plan) break;
            }
    }

    void start(std::uint32_t f) {
        sharing_.activate(f);
        active_.push_back(f);
        ++destinations_[static_cast<std::size_t>(flows_[f].src)];
    }

    /// A source that goes round d destinations writes to each for 1/d of the time.
    void lower_incast() {
        const Cluster& cluster = fabric_.cluster();
        writers_.assign(fabric_.ports(), 0);
        for (const std::uint32_t f : active_) {
            const auto path = fabric_.path(flows_[f].src, flows_[f].dst);
            if (path.count < 2) continue;
            writers_[path.ports[1]] += 1.0 / destinations_[static_cast<std::size_t>(flows_[f].src)];
        }
        for (std::uint32_t port = 0; port < fabric_.ports(); ++port) {
            if (fabric_.port(port).kind != PortKind::Nic) break;  // NICs come first
            result_.most_writers = std::max(result_.most_writers, writers_[port]);
            const double free = cluster.incast_writers, share = cluster.incast_rate_share;
            const double kept =
                free > 0 && writers_[port] > free ? share + (1 - share) * free / writers_[port] : 1;
            capacities_[port] = kept * fabric_.rate(port);
        }
    }

    /// Moves all active flows on by `seconds`; those that end within it end at their own time.
    void advance(double now, double seconds) {
        std::vector<std::uint32_t> ended;
        for (const std::uint32_t f : active_) {
            const double needed = left_[f] / rates_[f];
            if (needed <= seconds * (1 + 1e-12)) {
                left_[f] = 0;
                result_.flow_seconds[f] = now + needed;
                ended.push_back(f);
            } else {
                left_[f] -= seconds * rates_[f];
            }
        }
        std::erase_if(active_, [&](std::uint32_t f) { return left_[f] == 0; });
        for (const std::uint32_t f : ended) {
            sharing_.deactivate(f);
            const auto src = static_cast<std::size_t>(flows_[f].src);
            --destinations_[src];
            if (waiting_[src].empty()) continue;
            start(waiting_[src].back());
            waiting_[src].pop_back();
        }
    }

    std::span<const Flow> flows_;
    const Fabric& fabric_;
    Sharing sharing_;
    std::vector<double> capacities_, left_, rates_, writers_;
    std::vector<std::vector<std::uint32_t>> waiting_;  ///< by source rank
    std::vector<int> destinations_;                    ///< active flows of a source
    std::vector<std::uint32_t> active_;
    double resolution_ = 0;
    Simulation result_;
};

}  // namespace

Simulation simulate(std::span<const Flow> flows, const Fabric& fabric, Order order) {
    return Simulator(flows, fabric, order).run();
}

}  // namespace weightlift::sim
