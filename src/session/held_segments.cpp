#include "held_segments.hpp"

#include <algorithm>
#include <utility>

namespace weightlift::session {

HeldSegments::HeldSegments(const plan::StepPart& part, Rank self,
                           std::span<const std::size_t> carrier_of, std::vector<Carrier> carriers,
                           const std::function<int(Rank)>& mpi_rank)
    : carriers_(std::move(carriers)), queues_(carriers_.size()) {
    std::vector<std::size_t> place(part.sent.size());  // in its carrier's queue
    std::vector<std::vector<std::size_t>> taken(carriers_.size());
    for (std::size_t i = 0; i < place.size(); ++i) {
        place[i] = queues_[carrier_of[i]].segments++;
        taken[carrier_of[i]].push_back(i);
    }
    std::map<int, std::pair<std::size_t, std::size_t>> sources;
    for (std::size_t c = 0; c < carriers_.size(); ++c)
        for (std::size_t s = 0; s < carriers_[c].sources.size(); ++s)
            sources[carriers_[c].sources[s]] = {c, s};
    for (const plan::Gate& gate : part.gates) {
        Queue& queue = queues_[carrier_of[gate.segment]];
        if (gate.source != self) {
            const auto& [carrier, source] = sources.at(mpi_rank(gate.source));
            queue.holds.push_back({place[gate.segment], carrier, source, gate.count});
            continue;
        }
        // Its own first segments, wherever they go: so many of each carrier's.
        WEIGHTLIFT_ENSURES(gate.count <= gate.segment);
        for (std::size_t c = 0; c < taken.size(); ++c) {
            const auto end = std::lower_bound(taken[c].begin(), taken[c].end(), gate.count);
            const auto own = static_cast<std::uint32_t>(end - taken[c].begin());
            if (own > 0) queue.holds.push_back({place[gate.segment], c, kOwn, own});
        }
    }
    for (Queue& queue : queues_)
        std::stable_sort(queue.holds.begin(), queue.holds.end(),
                         [](const Hold& a, const Hold& b) { return a.segment < b.segment; });
}

void HeldSegments::start() {
    for (Queue& queue : queues_) queue.next = queue.allowed = 0;
}

bool HeldSegments::is_over(const Hold& hold) const {
    const transport::Push& push = *carriers_[hold.carrier].push;
    return hold.source == kOwn ? push.placed() >= hold.count
                               : push.signals_from(hold.source) >= hold.count;
}

void HeldSegments::allow() {
    for (std::size_t c = 0; c < queues_.size(); ++c) {
        Queue& queue = queues_[c];
        while (queue.next < queue.holds.size() && is_over(queue.holds[queue.next])) ++queue.next;
        const std::size_t end =
            queue.next == queue.holds.size() ? queue.segments : queue.holds[queue.next].segment;
        if (end == queue.allowed) continue;
        queue.allowed = end;
        carriers_[c].push->allow(end);
    }
}

}  // namespace weightlift::session
