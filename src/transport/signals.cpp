#include "signals.hpp"

#include <map>

#include <fmt/format.h>

#include "weightlift/mpi/message.hpp"

#include "ranks.hpp"

namespace weightlift::transport {
namespace {

constexpr int kSentTag = 31041;
constexpr int kExpectedTag = 31042;
const char* const kPhase = "exchange of numbers of segments";

using Counts = std::vector<std::uint64_t>;

/// Tells counts[i] to ranks[i] and returns what each of `peers` has told.
Counts tell(const Context& context, const std::vector<int>& ranks, const Counts& counts,
            const std::vector<int>& peers, int tag) {
    std::map<int, mpi::Bytestring> outgoing;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        mpi::Writer out;
        out.put(counts[i]);
        outgoing.emplace(ranks[i], out.take());
    }
    const auto told =
        context.world->exchange(outgoing, peers, tag, mpi::Deadline(context.timeout), kPhase);
    Counts theirs(peers.size());
    for (std::size_t i = 0; i < peers.size(); ++i)
        mpi::Reader(told.at(peers[i]), "number of segments").get(theirs[i]);
    return theirs;
}

}  // namespace

void agree_on_signals(const BoundPlan& plan, const Context& context, std::string_view backend) {
    const std::vector<int> destinations = ranks_of(plan.destinations);
    Counts sent(destinations.size()), expected(plan.sources.size());
    for (const Segment& segment : plan.segments) ++sent[segment.destination];
    for (std::size_t i = 0; i < plan.signals.size(); ++i) expected[i] = plan.signals[i];
    const Counts theirs = tell(context, destinations, sent, plan.sources, kSentTag);
    const Counts wanted = tell(context, plan.sources, expected, destinations, kExpectedTag);
    for (std::size_t i = 0; i < theirs.size(); ++i)
        if (theirs[i] != expected[i])
            throw TransportError(fmt::format("{}: {} has {} segments for this rank, not {}",
                                             backend, context.label(plan.sources[i]), theirs[i],
                                             expected[i]));
    for (std::size_t i = 0; i < wanted.size(); ++i)
        if (wanted[i] != sent[i])
            throw TransportError(fmt::format("{}: {} expects {} segments of this rank, not {}",
                                             backend, context.label(destinations[i]), wanted[i],
                                             sent[i]));
}

}  // namespace weightlift::transport
