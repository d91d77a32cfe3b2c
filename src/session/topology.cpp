#include "weightlift/session/topology.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <unistd.h>

namespace weightlift::session {

namespace {

std::string host_name() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
}

/// Two containers may share a host name; their kernel is the same one only where the boot id is.
std::string boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
}

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               mpi::Clock::now().time_since_epoch())
        .count();
}

}  // namespace

Topology Topology::discover(const mpi::Communicator& world, const mpi::Deadline& deadline) {
    const std::string mine = host_name() + '\n' + boot_id();
    const auto all = world.gather_strings(std::as_bytes(std::span(mine.data(), mine.size())),
                                          deadline, "discovery");
    mpi::Bytestring joined;
    for (const auto& one : all) {
        joined.insert(joined.end(), one.begin(), one.end());
        joined.push_back(std::byte{0});
    }
    world.broadcast(joined, deadline, "discovery");

    Topology topology;
    std::map<std::string, int> ids;
    const char* at = reinterpret_cast<const char*>(joined.data());
    for (int r = 0; r < world.size(); ++r) {
        const std::string text(at);
        at += text.size() + 1;
        const auto [found, is_new] = ids.try_emplace(text, static_cast<int>(ids.size()));
        if (is_new) topology.node_size.push_back(0);
        topology.hosts.push_back(text.substr(0, text.find('\n')));
        topology.node.push_back(found->second);
        topology.local_rank.push_back(
            topology.node_size[static_cast<std::size_t>(found->second)]++);
    }
    return topology;
}

std::string Topology::label(int rank) const {
    return fmt::format("rank {} (host {})", rank, hosts[static_cast<std::size_t>(rank)]);
}

Roles default_roles(Rank trainers, Rank rollouts) {
    Roles roles;
    roles.trainers = trainers;
    for (int r = 0; r < trainers + rollouts; ++r) {
        roles.mpi_rank.push_back(r);
        roles.plan_rank.push_back(r);
    }
    return roles;
}

namespace {

Roles from_lists(const std::vector<int>& trainer_ranks, const std::vector<int>& rollout_ranks) {
    Roles roles;
    roles.trainers = static_cast<Rank>(trainer_ranks.size());
    roles.mpi_rank = trainer_ranks;
    roles.mpi_rank.insert(roles.mpi_rank.end(), rollout_ranks.begin(), rollout_ranks.end());
    roles.plan_rank.resize(roles.mpi_rank.size());
    for (std::size_t p = 0; p < roles.mpi_rank.size(); ++p)
        roles.plan_rank[static_cast<std::size_t>(roles.mpi_rank[p])] = static_cast<Rank>(p);
    return roles;
}

void require_count(const char* role, std::size_t given, Rank needed) {
    if (given != static_cast<std::size_t>(needed))
        throw ConfigError(fmt::format("{} ranks have the role {}, but the {} layout needs {}",
                                      given, role, role, needed));
}

}  // namespace

Roles roles_from(const std::vector<layout::Side>& side_of_rank, Rank trainers, Rank rollouts) {
    std::array<std::vector<int>, 2> ranks;
    for (std::size_t r = 0; r < side_of_rank.size(); ++r)
        ranks[side_of_rank[r] == layout::Side::Trainer ? 0 : 1].push_back(static_cast<int>(r));
    require_count("trainer", ranks[0].size(), trainers);
    require_count("rollout", ranks[1].size(), rollouts);
    return from_lists(ranks[0], ranks[1]);
}

plan::PlanOptions plan_options(const Topology& topology, const Roles& roles, Bytes minimum_slice) {
    plan::PlanOptions options;
    options.minimum_slice = minimum_slice;
    for (const int rank : roles.mpi_rank) {
        options.node.push_back(topology.node[static_cast<std::size_t>(rank)]);
        if (topology.node_size.size() > 1)
            options.rail.push_back(topology.local_rank[static_cast<std::size_t>(rank)]);
    }
    return options;
}

Roles parse_roles(std::string_view text, Rank trainers, Rank rollouts) {
    const std::string original(text);
    const auto refuse = [&](const std::string& why) -> ConfigError {
        return ConfigError(fmt::format("--roles {}: {}", original, why));
    };
    std::array<std::vector<int>, 2> ranks;
    std::size_t role = 2;
    for (bool has_more = !text.empty(); has_more;) {
        const auto comma = text.find(',');
        std::string_view item = text.substr(0, comma);
        has_more = comma != std::string_view::npos;
        if (has_more) text.remove_prefix(comma + 1);
        if (const auto colon = item.find(':'); colon != std::string_view::npos) {
            const auto name = item.substr(0, colon);
            role = name == "trainer" ? 0 : name == "rollout" ? 1 : 2;
            if (role == 2) throw refuse(fmt::format("'{}' is not a role (trainer, rollout)", name));
            item.remove_prefix(colon + 1);
        }
        if (role == 2) throw refuse("must begin with 'trainer:' or 'rollout:'");
        int first = 0, last = 0;
        const char* end = item.data() + item.size();
        auto parsed = std::from_chars(item.data(), end, first);
        last = first;
        if (parsed.ec == std::errc{} && parsed.ptr != end && *parsed.ptr == '-')
            parsed = std::from_chars(parsed.ptr + 1, end, last);
        if (parsed.ec != std::errc{} || parsed.ptr != end || first < 0 || last < first)
            throw refuse(fmt::format("'{}' is not a rank or a range like 0-7", item));
        const Rank world = trainers + rollouts;
        if (last >= world)
            throw refuse(fmt::format("rank {} does not exist, the layouts need ranks 0 to {}", last,
                                     world - 1));
        for (int r = first; r <= last; ++r) ranks[role].push_back(r);
    }
    std::vector<int> all;
    for (const auto& list : ranks) all.insert(all.end(), list.begin(), list.end());
    std::sort(all.begin(), all.end());
    if (const auto twice = std::adjacent_find(all.begin(), all.end()); twice != all.end())
        throw refuse(fmt::format("rank {} is named twice", *twice));
    require_count("trainer", ranks[0].size(), trainers);
    require_count("rollout", ranks[1].size(), rollouts);
    return from_lists(ranks[0], ranks[1]);
}

ClockOffset measure_clock(const mpi::Communicator& world, const Topology& topology,
                          const mpi::Deadline& deadline) {
    // On one host all processes read one clock, so a single node has nothing to measure.
    if (topology.node_size.size() == 1) return {};
    constexpr int kRounds = 12;
    constexpr int kTag = 71;
    constexpr const char* kPhase = "clock";
    std::vector<int> leaders(topology.node_size.size(), -1);
    for (int r = 0; r < world.size(); ++r) {
        int& leader = leaders[static_cast<std::size_t>(topology.node[static_cast<std::size_t>(r)])];
        if (leader < 0) leader = r;
    }
    std::vector<ClockOffset> offsets(leaders.size());
    for (std::size_t n = 1; n < leaders.size(); ++n) {
        const int leader = leaders[n];
        if (world.rank() != 0 && world.rank() != leader) continue;
        std::uint64_t best = std::numeric_limits<std::uint64_t>::max();
        for (int round = 0; round < kRounds; ++round) {
            std::int64_t remote = 0;
            MPI_Request request = MPI_REQUEST_NULL;
            if (world.rank() == 0) {
                const std::int64_t sent = now_ns();
                mpi::check(MPI_Isend(&sent, 1, MPI_INT64_T, leader, kTag, world.get(), &request),
                           "MPI_Isend");
                world.wait(&request, deadline, kPhase);
                mpi::check(MPI_Irecv(&remote, 1, MPI_INT64_T, leader, kTag, world.get(), &request),
                           "MPI_Irecv");
                world.wait(&request, deadline, kPhase);
                const std::int64_t back = now_ns();
                const auto trip = static_cast<std::uint64_t>(back - sent);
                if (trip < best) {
                    best = trip;
                    offsets[n] = {(sent + back) / 2 - remote, trip / 2};
                }
            } else {
                std::int64_t ping = 0;
                mpi::check(MPI_Irecv(&ping, 1, MPI_INT64_T, 0, kTag, world.get(), &request),
                           "MPI_Irecv");
                world.wait(&request, deadline, kPhase);
                remote = now_ns();
                mpi::check(MPI_Isend(&remote, 1, MPI_INT64_T, 0, kTag, world.get(), &request),
                           "MPI_Isend");
                world.wait(&request, deadline, kPhase);
            }
        }
    }
    mpi::Bytestring bytes(offsets.size() * sizeof(ClockOffset));
    std::memcpy(bytes.data(), offsets.data(), bytes.size());
    world.broadcast(bytes, deadline, kPhase);
    std::memcpy(offsets.data(), bytes.data(), bytes.size());
    const auto mine =
        static_cast<std::size_t>(topology.node[static_cast<std::size_t>(world.rank())]);
    ClockOffset result = offsets[mine];
    for (const auto& o : offsets) result.error_ns = std::max(result.error_ns, o.error_ns);
    return result;
}

}  // namespace weightlift::session
