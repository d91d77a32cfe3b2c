#include "attach.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weightlift::transport::verbs {
namespace {

/// The first active port, or the first, whose state is then the reason for a refusal.
const NicPort& any_port(const Nic& nic) {
    const auto active = std::find_if(nic.ports.begin(), nic.ports.end(),
                                     [](const NicPort& port) { return port.is_active; });
    return active != nic.ports.end() ? *active : nic.ports.front();
}

Place place_at(const Nic& nic, const NicPort& port, const VerbsOptions& options, bool is_spare) {
    const auto asked = options.gid_index < 0 ? std::nullopt : std::optional<int>(options.gid_index);
    return {&nic, &port, choose_gid(nic, port, asked), is_spare};
}

/// "mlx5_0" or "mlx5_0:2".
Place named(const std::vector<Nic>& nics, const std::string& text, const VerbsOptions& options) {
    const auto colon = text.find(':');
    const std::string name = text.substr(0, colon);
    const auto nic = std::find_if(nics.begin(), nics.end(),
                                  [&](const Nic& candidate) { return candidate.name == name; });
    if (nic == nics.end()) {
        std::vector<std::string> there;
        for (const Nic& candidate : nics) there.push_back(candidate.name);
        throw ConfigError(fmt::format("--nic {}: this host has {}", name, fmt::join(there, ", ")));
    }
    if (nic->ports.empty())
        throw ConfigError(
            fmt::format("--nic {}: {}", name, nic->problem.empty() ? "has no port" : nic->problem));
    if (colon == std::string::npos) return place_at(*nic, any_port(*nic), options, false);
    int number = 0;
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + colon + 1, end, number);
    const auto port = std::find_if(nic->ports.begin(), nic->ports.end(),
                                   [&](const NicPort& p) { return p.number == number; });
    if (error != std::errc{} || last != end || port == nic->ports.end())
        throw ConfigError(fmt::format("--nic {}: {} has {} port{}, counted from 1", text, name,
                                      nic->ports.size(), nic->ports.size() == 1 ? "" : "s"));
    return place_at(*nic, *port, options, false);
}

std::vector<Place> nearest(const std::vector<Nic>& nics, const Context& context) {
    std::vector<Place> usable;
    std::vector<Candidate> candidates;
    std::string refusal;
    const std::vector<int> distances = nic_distances(nics);
    for (std::size_t i = 0; i < nics.size(); ++i) {
        if (nics[i].ports.empty()) {
            refusal = fmt::format("{}: {}", nics[i].name,
                                  nics[i].problem.empty() ? "has no port" : nics[i].problem);
            continue;
        }
        try {
            usable.push_back(place_at(nics[i], any_port(nics[i]), context.verbs, true));
            candidates.push_back({nics[i].name, usable.back().port->number, distances[i]});
        } catch (const ConfigError& error) {
            refusal = error.what();
        }
    }
    if (usable.empty()) throw ConfigError(refusal);
    for (const std::size_t i : deal_nics(candidates, context.local_rank, context.local_size))
        usable[i].is_spare = false;
    int least = candidates.front().distance;
    for (const Candidate& candidate : candidates) least = std::min(least, candidate.distance);
    std::vector<Place> places;
    for (std::size_t i = 0; i < usable.size(); ++i)
        if (candidates[i].distance == least) places.push_back(std::move(usable[i]));
    return places;
}

}  // namespace

std::vector<Place> choose_places(const std::vector<Nic>& nics, const Context& context) {
    if (nics.empty()) throw ConfigError(why_no_nics() + "; or use --transport shm or mpi");
    if (context.verbs.nics.empty()) return nearest(nics, context);
    std::vector<Place> places;
    for (const std::string& text : context.verbs.nics)
        places.push_back(named(nics, text, context.verbs));
    return places;
}

std::vector<std::unique_ptr<Device>> open_devices(const Context& context) {
    const std::vector<Nic> nics = list_nics();
    std::vector<std::unique_ptr<Device>> devices;
    for (Place& place : choose_places(nics, context))
        devices.push_back(std::make_unique<Device>(*place.nic, *place.port, std::move(place.gid),
                                                   place.is_spare));
    return devices;
}

}  // namespace weightlift::transport::verbs
