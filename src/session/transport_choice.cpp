// Which transport serves which pair. All ranks decide the same.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "state.hpp"

namespace weightlift::session {

std::string_view Session::State::transport_for(int src, int dst) const {
    if (options.transport != "auto") return options.transport;
    const bool is_near = node_of(src) == node_of(dst);
    const int peer = src == rank ? dst : src;
    for (const std::string& name : usable)
        if ((is_near || !transport::transport_capabilities(name).same_host_only) &&
            !unreached.contains({name, peer}))
            return name;
    throw TransportError(fmt::format("no transport built in reaches from {} to {}",
                                     agreement.label(src), agreement.label(dst)));
}

std::uint32_t Session::State::broadcast_from() const {
    if (options.strategy != plan::Strategy::Broadcast || options.transport == "auto" ||
        !transport::transport_capabilities(options.transport).broadcasts)
        return 0;
    // What trainers gather goes to one of them, too.
    return inputs.roles.trainers > options.trainer_stages ? 2 : 1;
}

transport::Context Session::State::transport_context() const {
    const auto me = static_cast<std::size_t>(rank);
    transport::VerbsOptions verbs = options.verbs;
    if (options.inject.wrong_key == rank) verbs.fault = transport::VerbsFault::WrongKey;
    if (options.inject.short_region == rank) verbs.fault = transport::VerbsFault::ShortRegion;
    return {.world = &world(),
            .watchdog = &watchdog,
            .timeout = agreement.timeout(),
            .label = [this](int r) { return agreement.label(r); },
            .slice = 0,
            .max_message = 0,
            .local_rank = inputs.topology.local_rank[me],
            .local_size = inputs.topology.node_size[static_cast<std::size_t>(node_of(rank))],
            .is_written_to = !bytes_from.empty(),
            .verbs = std::move(verbs),
            .nccl = options.nccl,
            .cuda = arena_options().cuda};
}

/// For `auto`: what every rank can use, by order of preference.
void Session::State::find_usable(const mpi::Deadline& deadline) {
    if (options.transport != "auto") {
        if (!moves_memory(transport::transport_capabilities(options.transport)))
            throw ConfigError(fmt::format("--memory {}: transport {} does not move such memory",
                                          memory::to_string(options.memory), options.transport));
        return;
    }
    const bool one_node = inputs.topology.node_size.size() == 1;
    std::string why;
    for (const std::string_view name : transport::transport_names()) {
        const transport::Capabilities c = transport::transport_capabilities(name);
        if (!moves_memory(c)) continue;
        // Asked for by name only: what it demands of the launch is not to be found out by trying.
        if (c.one_rank_per_gpu) continue;
        // Looking for devices costs time: only where they would be used.
        std::string problem;
        if (!one_node || c.same_host_only || usable.empty())
            problem = transport::transport_problem(name, transport_context());
        if (world().max(problem.empty() ? 0 : 1, deadline, "choice of transports") == 0) {
            usable.emplace_back(name);
            continue;
        }
        why += fmt::format("; {}: {}", name, problem.empty() ? "not on all ranks" : problem);
        // One rank's reason is enough: the lowest such rank's.
        const int first =
            world().min(problem.empty() ? world().size() : rank, deadline, "choice of transports");
        if (first == rank) passed_over = fmt::format("{} ({})", problem, agreement.label(rank));
    }
    if (usable.empty())
        throw ConfigError(fmt::format(
            "--memory {}: no transport built in ({}) moves such memory here{}",
            memory::to_string(options.memory), fmt::join(transport::transport_names(), ", "), why));
}

/// Where only an attempt tells, makes it.
void Session::State::try_reach(const mpi::Deadline& deadline) {
    transport::LinkTable near;
    for (const auto& [peer, bytes] : bytes_to)
        if (node_of(peer) == node_of(rank)) near.destinations.push_back({peer, bytes});
    for (const auto& [peer, bytes] : bytes_from)
        if (node_of(peer) == node_of(rank)) near.sources.push_back({peer, bytes});
    const bool is_auto = options.transport == "auto";
    for (const std::string& name : is_auto ? usable : std::vector<std::string>{options.transport}) {
        const auto found = transport::find_unreached(name, transport_context(), near);
        for (const auto& [peer, why] : found) unreached.emplace(name, peer);
        // One rank's reason is enough; it stands in the results file.
        if (!found.empty() && passed_over.empty())
            passed_over =
                fmt::format("{} ({} of {} peers of {})", found.front().why, found.size(),
                            near.destinations.size() + near.sources.size(), agreement.label(rank));
        if (world().max(found.empty() ? 0 : 1, deadline, "choice of transports") == 1)
            leaves_gaps.insert(name);
        // Only now: the others wait for this rank until here.
        if (!is_auto && !found.empty()) throw TransportError(found.front().why);
    }
}

/// Connecting is collective: every rank opens the same backends, in the same order.
std::vector<std::string> Session::State::opened_transports() const {
    if (options.transport != "auto") return {options.transport};
    const bool one_node = inputs.topology.node_size.size() == 1;
    std::vector<std::string> opened;
    for (const std::string& name : usable) {
        opened.push_back(name);
        const bool is_near_only = transport::transport_capabilities(name).same_host_only;
        if ((one_node || !is_near_only) && !leaves_gaps.contains(name)) break;
    }
    return opened;
}

}  // namespace weightlift::session
