#include "messages.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "weightlift/transport/transport.hpp"

#include "../strided.hpp"

namespace weightlift::transport::nccl {
namespace {

/// Packed copies begin at multiples of this, for wide loads.
constexpr Bytes kAlignment = 16;
/// Ranges are cut at multiples of this from their beginning.
constexpr Bytes kCut = 4 * KiB;
/// Rounds that packing is spread over where there is enough to pack.
constexpr Bytes kPackedRounds = 4;

/// `next` goes on where `last` ends, at both ends.
bool continues(const plan::Copy& last, const plan::Copy& next) {
    if (last.rows == 1 && next.rows == 1)
        return next.src_offset == last.src_offset + last.row_bytes &&
               next.dst_offset == last.dst_offset + last.row_bytes;
    return last.rows > 1 && next.rows > 1 && next.row_bytes == last.row_bytes &&
           next.src_pitch == last.src_pitch && next.dst_pitch == last.dst_pitch &&
           next.src_offset == last.src_offset + last.rows * last.src_pitch &&
           next.dst_offset == last.dst_offset + last.rows * last.dst_pitch;
}

/// The rotated order cuts copies between destinations; those of one pair go together again.
std::vector<plan::Copy> join(std::span<const plan::Copy> copies) {
    std::vector<plan::Copy> joined;
    for (const plan::Copy& copy : copies) {
        if (copy.bytes() == 0) continue;
        const plan::Copy next = join_rows(copy);
        if (joined.empty() || !continues(joined.back(), next)) {
            joined.push_back(next);
        } else if (next.rows == 1) {
            plan::Copy& last = joined.back();
            last.row_bytes += next.row_bytes;
            last.src_pitch = last.dst_pitch = last.row_bytes;
        } else {
            joined.back().rows += next.rows;
        }
    }
    return joined;
}

class Packer {
public:
    Packer(Bytes slot, std::vector<Packed>& packed) : slot_(slot), packed_(packed) {}

    void add(plan::Copy copy) {
        while (copy.rows > 0) {
            const Bytes at = round_up(used_, kAlignment);
            const Bytes room = at < slot_ ? slot_ - at : 0;
            std::uint64_t rows = std::min(copy.rows, room / copy.row_bytes);
            if (rows == 0 && used_ > 0) {
                close();
                continue;
            }
            plan::Copy part = copy;
            if (rows == 0) {  // a row that no message holds
                part.rows = rows = 1;
                part.row_bytes = room;
                put(part, at);
                plan::Copy rest = copy;
                rest.rows = 1;
                rest.src_offset += room;
                rest.dst_offset += room;
                rest.row_bytes -= room;
                if (copy.rows == 1) {
                    copy = rest;
                    continue;
                }
                add(rest);
            } else {
                part.rows = rows;
                put(part, at);
            }
            copy.src_offset += rows * copy.src_pitch;
            copy.dst_offset += rows * copy.dst_pitch;
            copy.rows -= rows;
        }
    }
    void close() {
        if (used_ > 0) ends_.push_back({.packed_end = packed_.size(), .packed_bytes = used_});
        used_ = 0;
    }
    [[nodiscard]] const std::vector<Round>& ends() const { return ends_; }

private:
    void put(const plan::Copy& part, Bytes at) {
        packed_.push_back({part, at});
        used_ = at + part.bytes();
    }

    Bytes slot_, used_ = 0;
    std::vector<Packed>& packed_;
    std::vector<Round> ends_;
};

/// Deals ranges out over rounds, of which there are to be at least `planned`.
class Dealer {
public:
    Dealer(const MessageRules& rules, PairMessages& list, Bytes total, std::size_t planned)
        : rules_(rules),
          list_(list),
          planned_(planned),
          share_(std::max(ceil_div(total, planned), rules.direct)) {}

    void add(Message range) {
        while (range.bytes > 0) {
            const bool is_last = list_.rounds.size() + 1 >= planned_;
            const Bytes room = is_last ? ~Bytes{0} : share_ - std::min(share_, used_);
            Bytes n = std::min({range.bytes, rules_.message, room});
            // Neither the end of a round nor that of a range is worth a short message.
            if (count_ == rules_.messages ||
                n < std::min({range.bytes, rules_.message, rules_.direct})) {
                close();
                continue;
            }
            if (range.bytes - n < rules_.direct) n = std::min(range.bytes, rules_.message);
            if (n < range.bytes && n > kCut) n -= n % kCut;
            list_.messages.push_back({range.src_offset, range.dst_offset, n});
            range.src_offset += n;
            range.dst_offset += n;
            range.bytes -= n;
            used_ += n;
            ++count_;
        }
    }
    void finish() {
        if (count_ > 0) close();
        while (list_.rounds.size() < planned_) close();
    }

private:
    void close() {
        list_.rounds.push_back(
            {.messages_end = list_.messages.size(), .number = list_.rounds.size()});
        used_ = 0;
        count_ = 0;
    }

    const MessageRules& rules_;
    PairMessages& list_;
    std::size_t planned_;
    Bytes share_, used_ = 0;
    std::uint64_t count_ = 0;
};

/// All by ranges, none packed.
PairMessages cut_ranges(std::span<const plan::Copy> copies, MessageRules rules) {
    rules.direct = 1;
    return cut_messages(copies, rules);
}

template <class T>
std::span<const T> between(const std::vector<T>& list, std::uint64_t begin, std::uint64_t end) {
    return std::span<const T>(list).subspan(begin, end - begin);
}

}  // namespace

Bytes PairMessages::bytes() const {
    Bytes sum = 0;
    for (const Message& message : messages) sum += message.bytes;
    for (const Packed& one : packed) sum += one.copy.bytes();
    return sum;
}

Bytes PairMessages::broadcast_bytes() const {
    Bytes sum = 0;
    for (std::size_t round = 0; round < rounds.size(); ++round)
        if (is_broadcast(rounds[round].number))
            for (const Message& message : messages_of(round)) sum += message.bytes;
    return sum;
}

std::span<const Message> PairMessages::messages_of(std::size_t round) const {
    return between(messages, round == 0 ? 0 : rounds[round - 1].messages_end,
                   rounds[round].messages_end);
}

std::span<const Packed> PairMessages::packed_of(std::size_t round) const {
    return between(packed, round == 0 ? 0 : rounds[round - 1].packed_end, rounds[round].packed_end);
}

std::vector<Message> ranges_of(std::span<const plan::Copy> copies) {
    std::vector<Message> ranges;
    for (const plan::Copy& copy : join(copies))
        for (std::uint64_t row = 0; row < copy.rows; ++row)
            ranges.push_back({copy.src_offset + row * copy.src_pitch,
                              copy.dst_offset + row * copy.dst_pitch, copy.row_bytes});
    return ranges;
}

PairMessages cut_messages(std::span<const plan::Copy> copies, const MessageRules& rules) {
    std::vector<Message> ranges;
    std::vector<plan::Copy> short_ones;
    Bytes direct = 0, packed = 0;
    for (const plan::Copy& copy : join(copies)) {
        if (copy.row_bytes < rules.direct) {
            short_ones.push_back(copy);
            packed += copy.bytes();
            continue;
        }
        direct += copy.bytes();
        for (std::uint64_t row = 0; row < copy.rows; ++row)
            ranges.push_back({copy.src_offset + row * copy.src_pitch,
                              copy.dst_offset + row * copy.dst_pitch, copy.row_bytes});
    }
    PairMessages list;
    const Bytes even = rules.is_spread
                           ? std::max(ceil_div(packed, kPackedRounds), rules.least_packed)
                           : rules.slot;
    Packer packer(std::min(rules.slot, even), list.packed);
    for (const plan::Copy& copy : short_ones) packer.add(copy);
    packer.close();

    // Packing for the first time has something to hide behind where the first round packs nothing.
    const std::vector<Round>& ends = packer.ends();
    const std::size_t first = !rules.is_spread || ranges.empty() || ends.empty() ? 0 : 1;
    Dealer dealer(rules, list, direct, std::max<std::size_t>(1, ends.size() + first));
    for (const Message& range : ranges) dealer.add(range);
    dealer.finish();
    std::uint64_t packed_end = 0;
    for (std::size_t i = 0; i < list.rounds.size(); ++i) {
        Round& round = list.rounds[i];
        if (i >= first && i - first < ends.size()) {
            packed_end = ends[i - first].packed_end;
            round.packed_bytes = ends[i - first].packed_bytes;
        }
        round.packed_end = packed_end;
    }
    return list;
}

PairMessages cut_segments(std::span<const plan::Copy> copies, std::span<const Segment> segments,
                          const MessageRules& rules, const BroadcastRounds& broadcasts) {
    if (segments.empty()) return cut_messages(copies, rules);
    MessageRules of_segments = rules;
    of_segments.is_spread = false;
    PairMessages list;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < segments.size();) {
        const std::uint32_t round = segments[i].round;
        const std::size_t before = i;
        while (i < segments.size() && segments[i].round == round) ++i;
        const std::size_t end = segments[i - 1].end;
        const auto of_round = copies.subspan(begin, end - begin);
        const bool is_sent_alike =
            std::binary_search(broadcasts.rounds.begin(), broadcasts.rounds.end(), round);
        const PairMessages next =
            is_sent_alike ? cut_ranges(of_round, of_segments) : cut_messages(of_round, of_segments);
        // A pair begins with the epoch, which goes to one.
        if (is_sent_alike && list.rounds.empty())
            list.rounds.push_back({.number = round_number(round, 0)});
        for (Round one : next.rounds) {
            const bool is_last = one.number + 1 == next.rounds.size();
            one.messages_end += list.messages.size();
            one.packed_end += list.packed.size();
            one.number = is_sent_alike ? broadcast_number(round, broadcasts.root, one.number)
                                       : round_number(round, one.number);
            one.segments_end = is_last ? i : before;
            list.rounds.push_back(one);
        }
        list.messages.insert(list.messages.end(), next.messages.begin(), next.messages.end());
        list.packed.insert(list.packed.end(), next.packed.begin(), next.packed.end());
        begin = end;
    }
    return list;
}

void check_messages(const PairMessages& list, Bytes arena_bytes, const std::string& peer) {
    const auto refuse = [&](const char* why) {
        throw TransportError(fmt::format("nccl: the list of messages of {} {}", peer, why));
    };
    if (list.rounds.empty()) refuse("has no rounds");
    Round last;
    for (std::size_t i = 0; i < list.rounds.size(); ++i) {
        const Round& round = list.rounds[i];
        if (round.messages_end < last.messages_end || round.packed_end < last.packed_end ||
            round.messages_end > list.messages.size() || round.packed_end > list.packed.size() ||
            (i > 0 && round.number <= last.number) || round.segments_end < last.segments_end)
            refuse("has rounds that are not in order");
        for (const Packed& one : list.packed_of(i)) {
            const Bytes bytes = one.copy.bytes();
            if (one.at > round.packed_bytes || bytes > round.packed_bytes - one.at || bytes == 0)
                refuse("has a packed copy outside its message");
        }
        last = round;
    }
    if (last.messages_end != list.messages.size() || last.packed_end != list.packed.size())
        refuse("has more than its rounds");
    BoundPlan plan;
    plan.destinations.push_back({0, arena_bytes, {}});
    for (const Message& message : list.messages)
        plan.copies.push_back({0, 0, 0, message.dst_offset, message.bytes, 1, message.bytes});
    for (const Packed& one : list.packed) {
        plan.copies.push_back(one.copy);
        plan.copies.back().destination = 0;
    }
    check_bounds(plan, ~Bytes{0}, [&](int) { return "this rank, as told by " + peer; });
}

}  // namespace weightlift::transport::nccl
