#include "broadcasts.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::nccl {
namespace {

/// Ranges of a source, without where they go.
using Sent = std::vector<std::pair<Bytes, Bytes>>;

/// Whether these ranges are worth an operation each and fit the numbers of a round.
bool suits(const Sent& ranges, const MessageRules& rules) {
    std::uint64_t messages = 0;
    bool is_long = true;
    for (const auto& [offset, bytes] : ranges) {
        messages += ceil_div(bytes, rules.message) + 1;
        is_long = is_long && bytes >= rules.direct;
    }
    // Cuts at multiples give a range at most twice as many messages.
    return (is_long || ranges.size() == 1) && 2 * messages <= rules.messages * kMostBroadcastRounds;
}

}  // namespace

Broadcasts find_broadcasts(std::span<const std::vector<plan::Copy>> copies,
                           std::span<const std::vector<Segment>> segments,
                           std::span<const int> destinations, int self, std::size_t least,
                           const MessageRules& rules) {
    if (self >= kRoots) return {};
    // By round: what is sent in it, and to whom.
    std::map<std::uint32_t, std::map<Sent, std::vector<std::size_t>>> rounds;
    for (std::size_t d = 0; d < destinations.size(); ++d) {
        if (destinations[d] == self) continue;
        const std::span<const plan::Copy> all(copies[d]);
        std::size_t begin = 0;
        for (std::size_t i = 0; i < segments[d].size();) {
            const std::uint32_t round = segments[d][i].round;
            while (i < segments[d].size() && segments[d][i].round == round) ++i;
            const std::size_t end = segments[d][i - 1].end;
            Sent sent;
            for (const Message& range : ranges_of(all.subspan(begin, end - begin)))
                sent.emplace_back(range.src_offset, range.bytes);
            if (!sent.empty() && suits(sent, rules)) rounds[round][std::move(sent)].push_back(d);
            begin = end;
        }
    }
    struct Found {
        Bytes bytes = 0;
        std::vector<std::uint32_t> rounds;
    };
    std::map<std::vector<std::size_t>, Found> sets;
    for (const auto& [round, by_ranges] : rounds)
        for (const auto& [sent, who] : by_ranges) {
            if (who.size() < least) continue;
            Found& found = sets[who];
            for (const auto& [offset, bytes] : sent) found.bytes += bytes * who.size();
            found.rounds.push_back(round);
        }
    if (sets.empty()) return {};
    auto& [who, found] = *std::max_element(
        sets.begin(), sets.end(), [](auto& a, auto& b) { return a.second.bytes < b.second.bytes; });
    return {who, std::move(found.rounds)};
}

void check_broadcasts(const PairMessages& list, int source, int self, const std::string& peer) {
    const auto refuse = [&](const char* why) {
        throw TransportError(fmt::format("nccl: the list of messages of {} {}", peer, why));
    };
    const std::vector<int>& members = list.members;
    const auto has = [&](int rank) {
        return std::binary_search(members.begin(), members.end(), rank);
    };
    if (!members.empty() && (std::adjacent_find(members.begin(), members.end(),
                                                std::greater_equal<>()) != members.end() ||
                             !has(source) || !has(self)))
        refuse("has broadcasts to others than this rank");
    for (std::size_t round = 0; round < list.rounds.size(); ++round) {
        if (!is_broadcast(list.rounds[round].number)) continue;
        if (members.empty() || root_of(list.rounds[round].number) != source)
            refuse("has broadcasts of another root");
        if (round == 0 || list.messages_of(round).empty() || list.rounds[round].packed_bytes > 0)
            refuse("has broadcasts of what cannot be broadcast");
    }
}

}  // namespace weightlift::transport::nccl
