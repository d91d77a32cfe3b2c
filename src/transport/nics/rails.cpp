#include <algorithm>

#include "gid.hpp"

namespace weightlift::transport {
namespace {

bool has_equal_prefix(const Gid& a, const Gid& b, int bits) {
    for (int i = 0; i < 16 && bits > 0; ++i, bits -= 8) {
        const int mask = bits >= 8 ? 0xff : 0xff << (8 - bits) & 0xff;
        const auto byte = static_cast<std::size_t>(i);
        if (((a[byte] ^ b[byte]) & mask) != 0) return false;
    }
    return true;
}

/// Whether packets can get from one to the other at all, through routers where needed.
bool can_reach(const Rail& a, const Rail& b) {
    if (a.link != b.link || a.link == LinkLayer::Unknown) return false;
    return a.link == LinkLayer::InfiniBand || address_of(a.gid) == address_of(b.gid);
}

bool is_one_subnet(const Rail& a, const Rail& b) {
    if (!can_reach(a, b)) return false;
    if (a.link == LinkLayer::InfiniBand) return has_equal_prefix(a.gid, b.gid, 64);
    const Address address = address_of(a.gid);
    if (address == Address::LinkLocal) return true;
    const int known = a.prefix_length < 0   ? b.prefix_length
                      : b.prefix_length < 0 ? a.prefix_length
                                            : std::min(a.prefix_length, b.prefix_length);
    if (address == Address::Ipv4)
        return has_equal_prefix(a.gid, b.gid, 96 + (known < 0 ? 24 : known));
    return has_equal_prefix(a.gid, b.gid, known < 0 ? 64 : known);
}

/// Every rail that fits any gets a partner: first each source its least used destination, then
/// each destination still without one its least used source.
template <class Fits>
std::vector<RailPair> pair_by(std::span<const Rail> source, std::span<const Rail> destination,
                              const Fits& fits) {
    std::vector<RailPair> pairs;
    std::vector<int> source_uses(source.size()), destination_uses(destination.size());
    const auto least_used = [](const std::vector<int>& uses, auto&& is_candidate) {
        std::size_t best = uses.size();
        for (std::size_t i = 0; i < uses.size(); ++i)
            if (is_candidate(i) && (best == uses.size() || uses[i] < uses[best])) best = i;
        return best;
    };
    const auto add = [&](std::size_t s, std::size_t d) {
        if (s == source.size() || d == destination.size()) return;
        ++source_uses[s];
        ++destination_uses[d];
        pairs.push_back({static_cast<int>(s), static_cast<int>(d),
                         std::min(source[s].rate, destination[d].rate)});
    };
    for (std::size_t s = 0; s < source.size(); ++s)
        add(s, least_used(destination_uses,
                          [&](std::size_t d) { return fits(source[s], destination[d]); }));
    for (std::size_t d = 0; d < destination.size(); ++d)
        if (destination_uses[d] == 0)
            add(least_used(source_uses,
                           [&](std::size_t s) { return fits(source[s], destination[d]); }),
                d);
    std::sort(pairs.begin(), pairs.end(), [](const RailPair& a, const RailPair& b) {
        return a.source != b.source ? a.source < b.source : a.destination < b.destination;
    });
    return pairs;
}

}  // namespace

std::vector<RailPair> pair_rails(std::span<const Rail> source, std::span<const Rail> destination) {
    const auto own = [](bool (*fits)(const Rail&, const Rail&)) {
        return [fits](const Rail& a, const Rail& b) {
            return !a.is_spare && !b.is_spare && fits(a, b);
        };
    };
    // A pair of two spare rails would be nobody's share.
    const auto with_spare = [](bool (*fits)(const Rail&, const Rail&)) {
        return [fits](const Rail& a, const Rail& b) {
            return !(a.is_spare && b.is_spare) && fits(a, b);
        };
    };
    auto pairs = pair_by(source, destination, own(is_one_subnet));
    if (pairs.empty()) pairs = pair_by(source, destination, with_spare(is_one_subnet));
    if (pairs.empty()) pairs = pair_by(source, destination, own(can_reach));
    if (pairs.empty()) pairs = pair_by(source, destination, with_spare(can_reach));
    return pairs;
}

}  // namespace weightlift::transport
