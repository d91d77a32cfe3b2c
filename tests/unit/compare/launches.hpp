// Launches made up for tests: one case, one trainer and two rollouts on two hosts.
#pragma once

#include <string>
#include <vector>

#include "weightlift/compare/launch.hpp"

namespace weightlift::compare::made_up {

inline std::uint64_t ns(double ms) { return static_cast<std::uint64_t>(ms * 1e6); }

/// A launch whose time is that of its trainer's post and wire; the rollouts wait for them.
inline Launch launch(const std::string& name, double post_ms, double wire_ms) {
    Launch one;
    one.path = name + ".h5";
    one.run_uuid = "run " + name;
    one.created_utc = "2026-11-29T00:00:00Z";
    one.status = "complete";
    one.tool_version = "0.1.0";
    one.git = "abc";
    one.provenance = {{"kernel", "Linux 6.1"}, {"cpu", "EPYC, 16 processors"}};
    one.info.model = "tiny";
    one.info.trainer = "tp=1";
    one.info.rollout = "tp=2";
    one.info.strategy = "direct";
    one.info.transport = "shm";
    one.info.key = one.name = "tiny/tp=1/tp=2/direct/shm";
    one.info.verify = "fingerprint";
    one.info.memory = "host";
    one.info.options = R"({"window_bytes":1,"order":"rotated"})";
    one.info.bytes = 1'000'000;
    one.info.plan_digest = 0xabcd;
    for (std::int32_t r = 0; r < 3; ++r) {
        record::RankInfo rank;
        rank.role = r == 0 ? "trainer" : "rollout";
        rank.rank = rank.plan_rank = r;
        rank.host = r == 0 ? "n0" : "n7";
        rank.node = r == 0 ? 0 : 1;
        rank.nic = "mlx5_0";
        rank.mtu = 4096;
        one.ranks.push_back(rank);
        PhaseMedians phases;
        phases.fill(record::kNotMeasured);
        phases[static_cast<std::size_t>(record::Phase::Post)] = r == 0 ? ns(post_ms) : ns(0.01);
        phases[static_cast<std::size_t>(record::Phase::Wire)] =
            r == 0 ? ns(wire_ms) : ns(post_ms + wire_ms);
        one.phases.push_back(phases);
    }
    one.summary.iterations = 5;
    one.summary.p50_ns = ns(post_ms + wire_ms);
    one.summary.min_ns = one.summary.first_ns = one.summary.max_ns = one.summary.p50_ns;
    one.summary.slowest_rank = 2;
    one.summary.slowest_count = 5;
    return one;
}

/// `count` launches around these times, 0.2 % apart.
inline std::vector<Launch> side(const std::string& name, std::size_t count, double post_ms,
                                double wire_ms) {
    std::vector<Launch> launches;
    for (std::size_t i = 0; i < count; ++i)
        launches.push_back(launch(name + std::to_string(i), post_ms,
                                  wire_ms + 0.002 * (post_ms + wire_ms) * static_cast<double>(i)));
    return launches;
}

/// The same launches as another case.
inline std::vector<Launch> as_case(std::vector<Launch> launches, const std::string& model) {
    for (Launch& one : launches) {
        one.info.model = model;
        one.info.key = one.name = model + "/tp=1/tp=2/direct/shm";
    }
    return launches;
}

inline void append(std::vector<Launch>& to, std::vector<Launch> more) {
    for (Launch& one : more) to.push_back(std::move(one));
}

}  // namespace weightlift::compare::made_up
