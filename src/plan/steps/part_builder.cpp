#include "part_builder.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace weightlift::plan::steps {

PartBuilder::Handle PartBuilder::send(Rank destination, std::uint32_t step, const Key& key,
                                      std::vector<Copy> copies) {
    if (destination == self_) receive(self_, step, key, copies);
    sent_.push_back({key, {self_, destination, step, key.round, std::move(copies)}});
    return sent_.size() - 1;
}

void PartBuilder::receive(Rank source, std::uint32_t step, const Key& key,
                          std::vector<Copy> copies) {
    received_.push_back({key, {source, self_, step, key.round, std::move(copies)}});
}

void PartBuilder::wait_for(Handle sent, Rank source, const Key& key) {
    WEIGHTLIFT_ENSURES(source != self_ && key.round < sent_[sent].key.round);
    waits_.push_back({sent, source, key, 0});
}

void PartBuilder::wait_for_own(Handle sent, Handle earlier) {
    WEIGHTLIFT_ENSURES(sent_[earlier].key.round < sent_[sent].key.round);
    waits_.push_back({sent, self_, {}, earlier});
}

StepPart PartBuilder::finish(Bytes staging) && {
    std::vector<Handle> order(sent_.size());
    std::iota(order.begin(), order.end(), Handle{0});
    std::sort(order.begin(), order.end(), [&](Handle a, Handle b) {
        return std::tie(sent_[a].key, sent_[a].segment.dst) <
               std::tie(sent_[b].key, sent_[b].segment.dst);
    });
    std::vector<std::uint32_t> position(sent_.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        position[order[i]] = narrow<std::uint32_t>(i, "segments of a rank");

    const auto place = [](const Entry& e) { return std::tie(e.segment.src, e.key); };
    std::sort(received_.begin(), received_.end(),
              [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
    const auto first_from = [&](Rank source) {
        return std::lower_bound(received_.begin(), received_.end(), source,
                                [](const Entry& e, Rank r) { return e.segment.src < r; });
    };
    std::map<Rank, std::size_t> firsts;
    const auto count_until = [&](const Wait& wait) {
        const auto at =
            std::lower_bound(received_.begin(), received_.end(), std::tie(wait.source, wait.key),
                             [&](const Entry& e, const auto& value) { return place(e) < value; });
        WEIGHTLIFT_ENSURES(at != received_.end() && at->segment.src == wait.source &&
                           at->key == wait.key);
        const auto [first, is_new] = firsts.try_emplace(wait.source, 0);
        if (is_new)
            first->second = static_cast<std::size_t>(first_from(wait.source) - received_.begin());
        return narrow<std::uint32_t>(
            static_cast<std::size_t>(at - received_.begin()) + 1 - first->second,
            "segments from a rank");
    };

    StepPart part;
    part.staging = staging;
    std::vector<Gate> gates;
    gates.reserve(waits_.size());
    for (const Wait& wait : waits_)
        gates.push_back({position[wait.sent], wait.source,
                         wait.source == self_ ? position[wait.earlier] + 1 : count_until(wait)});
    std::sort(gates.begin(), gates.end(), [](const Gate& a, const Gate& b) {
        return std::tie(a.segment, a.source, b.count) < std::tie(b.segment, b.source, a.count);
    });
    for (const Handle handle : order) part.sent.push_back(std::move(sent_[handle].segment));
    for (Entry& entry : received_) part.received.push_back(std::move(entry.segment));
    // Of one destination, what an earlier segment has waited for need not be waited for again.
    std::map<std::pair<Rank, Rank>, std::uint32_t> waited;
    for (const Gate& gate : gates) {
        auto& count = waited[{part.sent[gate.segment].dst, gate.source}];
        if (gate.count <= count) continue;
        count = gate.count;
        part.gates.push_back(gate);
    }
    return part;
}

}  // namespace weightlift::plan::steps
