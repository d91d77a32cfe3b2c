#include "lists.hpp"

#include <algorithm>

#include "weightlift/mpi/message.hpp"

#include "broadcasts.hpp"

namespace weightlift::transport::nccl {

std::vector<PairMessages> cut_lists(const BoundPlan& plan, const std::vector<MessageRules>& rules,
                                    int self) {
    std::vector<std::vector<Copy>> copies(plan.destinations.size());
    for (const Copy& copy : plan.copies) copies[copy.destination].push_back(copy);
    std::vector<std::vector<Segment>> segments(plan.destinations.size());
    std::vector<std::size_t> ends(plan.destinations.size());
    std::size_t begin = 0;
    for (Segment segment : plan.segments) {
        const std::size_t count = segment.end - begin;
        begin = segment.end;
        segment.end = ends[segment.destination] += count;
        segments[segment.destination].push_back(segment);
    }
    Broadcasts broadcasts;
    std::vector<int> members;
    if (plan.broadcast_from > 0 && !rules.empty()) {
        std::vector<int> ranks;
        for (const Destination& destination : plan.destinations) ranks.push_back(destination.rank);
        broadcasts =
            find_broadcasts(copies, segments, ranks, self, plan.broadcast_from, rules.front());
        for (const std::size_t d : broadcasts.destinations) members.push_back(ranks[d]);
        if (!members.empty()) members.push_back(self);
        std::sort(members.begin(), members.end());
    }
    std::vector<PairMessages> lists;
    for (std::size_t d = 0; d < copies.size(); ++d) {
        if (std::binary_search(broadcasts.destinations.begin(), broadcasts.destinations.end(), d)) {
            lists.push_back(
                cut_segments(copies[d], segments[d], rules[d], {self, broadcasts.rounds}));
            lists.back().members = members;
        } else {
            lists.push_back(cut_segments(copies[d], segments[d], rules[d]));
        }
    }
    return lists;
}

mpi::Bytestring serialize(const PairMessages& list) {
    mpi::Writer out;
    out.put_all(std::span<const Message>(list.messages));
    out.put_all(std::span<const Packed>(list.packed));
    out.put_all(std::span<const Round>(list.rounds));
    out.put_all(std::span<const int>(list.members));
    return out.take();
}

PairMessages deserialize(const mpi::Bytestring& bytes) {
    mpi::Reader in(bytes, "list of messages");
    PairMessages list;
    in.get_all(list.messages);
    in.get_all(list.packed);
    in.get_all(list.rounds);
    in.get_all(list.members);
    return list;
}

}  // namespace weightlift::transport::nccl
