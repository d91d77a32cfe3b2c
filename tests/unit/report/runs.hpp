// Made-up runs: two trainers, two rollouts, 10 GB in 100 ms.
#pragma once

#include <string>
#include <vector>

#include "weightlift/record/h5_file.hpp"

namespace weightlift::report::made_up {

inline constexpr std::uint64_t kMs = 1'000'000;

inline record::Sample push(std::uint64_t ns, record::Validity validity = record::Validity::Valid,
                           bool is_warmup = false) {
    record::Sample s;
    s.time_ns = ns;
    s.validity = validity;
    s.warmup = is_warmup;
    s.rank_time_ns = {ns / 4, ns / 4, ns / 2, ns};
    s.phase_ns.assign(4, {});
    return s;
}

inline record::CaseRecord one_case(const std::string& key, const std::string& options = "{}") {
    record::CaseRecord one;
    one.info.key = key;
    one.info.options = options;
    one.info.verify = "fingerprint";
    one.info.bytes = 10'000'000'000;
    one.info.port_bytes = 5'000'000'000;
    one.info.copies = 1000;
    one.info.plan_digest = 0xabcd;
    one.setup_ns.assign(4, {1, 2, 3, 4, 5});
    one.samples = {push(300 * kMs, record::Validity::Valid, true), push(110 * kMs), push(100 * kMs),
                   push(90 * kMs)};
    one.traffic = {{0, 2, "shm", 4'000'000'000},
                   {0, 3, "shm", 1'000'000'000},
                   {1, 2, "shm", 1'000'000'000},
                   {1, 3, "mpi", 4'000'000'000}};
    return one;
}

inline record::RunRecord run(const std::string& path, std::vector<record::CaseRecord> cases) {
    record::RunRecord r;
    r.path = path;
    r.status = "complete";
    r.exit_code = 0;
    r.run.created_utc = "2026-11-30T00:00:00Z";
    r.run.provenance = {{"kernel", "Linux 6.1"}};
    for (std::int32_t i = 0; i < 4; ++i) {
        record::RankInfo rank;
        rank.role = i < 2 ? "trainer" : "rollout";
        rank.rank = rank.plan_rank = i;
        rank.engine = i < 2 ? -1 : 0;
        rank.host = i < 2 ? "n041" : "n042";
        rank.nic = i == 3 ? "mlx5_3" : "";
        r.run.ranks.push_back(rank);
    }
    r.cases = std::move(cases);
    return r;
}

/// How often `part` occurs in `text`.
inline std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

}  // namespace weightlift::report::made_up
