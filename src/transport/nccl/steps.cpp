#include "steps.hpp"

#include <algorithm>

#include "weightlift/base/error.hpp"

namespace weightlift::transport::nccl {
namespace {

constexpr Bytes kAlignment = 256;

/// Of a number that this rank has a part in.
std::size_t step_of(const std::vector<Step>& steps, std::uint64_t number) {
    const auto at = std::lower_bound(
        steps.begin(), steps.end(), number,
        [](const Step& step, std::uint64_t wanted) { return step.number < wanted; });
    WEIGHTLIFT_ENSURES(at != steps.end() && at->number == number);
    return static_cast<std::size_t>(at - steps.begin());
}

/// Gives the packed messages of one direction their places and cuts the kernel's pieces. Staging
/// has two halves for each direction, used in turn.
void stage(Steps& steps, std::vector<Pair>& pairs, Step::Range Step::*pieces_of) {
    const bool packs = pieces_of == &Step::pack;
    std::vector<Bytes> packed(steps.list.size());
    for (const Pair& pair : pairs)
        for (const Round& round : pair.list.rounds)
            if (!pair.is_local)
                packed[step_of(steps.list, round.number)] +=
                    round_up(round.packed_bytes, kAlignment);
    const Bytes half = *std::max_element(packed.begin(), packed.end());
    for (std::size_t s = 0; s < steps.list.size(); ++s) {
        Step::Range& range = steps.list[s].*pieces_of;
        range.begin = steps.pieces.size();
        Bytes at = steps.staging_bytes + (s % 2) * half;
        for (Pair& pair : pairs) {
            const std::size_t round = pair.staging.size();
            if (!pair.has(round, steps.list[s].number)) continue;
            pair.staging.push_back(at);
            if (pair.is_local) continue;
            for (const Packed& one : pair.list.packed_of(round)) {
                plan::Copy copy = one.copy;
                (packs ? copy.dst_offset : copy.src_offset) = at + one.at;
                (packs ? copy.dst_pitch : copy.src_pitch) = copy.row_bytes;
                cut_into_pieces(copy, steps.pieces);
            }
            at += round_up(pair.list.rounds[round].packed_bytes, kAlignment);
        }
        range.end = steps.pieces.size();
    }
    steps.staging_bytes += 2 * half;
}

void cut_local_copies(Steps& steps, const std::vector<Pair>& destinations) {
    const auto local = std::find_if(destinations.begin(), destinations.end(),
                                    [](const Pair& pair) { return pair.is_local; });
    if (local == destinations.end()) return;
    for (std::size_t i = 0; i < local->list.rounds.size(); ++i) {
        Step::Range& range = steps.list[step_of(steps.list, local->list.rounds[i].number)].local;
        range.begin = steps.pieces.size();
        for (const Message& m : local->list.messages_of(i))
            cut_into_pieces({0, m.src_offset, m.bytes, m.dst_offset, m.bytes, 1, m.bytes},
                            steps.pieces);
        for (const Packed& one : local->list.packed_of(i)) cut_into_pieces(one.copy, steps.pieces);
        range.end = steps.pieces.size();
    }
}

/// Which step needs how many of this rank's segments to be allowed, and how many have travelled
/// after it.
void find_segments(std::vector<Step>& steps, const std::vector<Pair>& destinations,
                   std::span<const Segment> segments) {
    std::vector<std::size_t> round(destinations.size()), count(destinations.size());
    std::size_t last = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const std::uint32_t d = segments[i].destination;
        const std::vector<Round>& rounds = destinations[d].list.rounds;
        ++count[d];
        while (rounds[round[d]].segments_end < count[d]) ++round[d];
        last = std::max(last, step_of(steps, rounds[round[d]].number));
        steps[last].placed = i + 1;
    }
    std::size_t needs = 0, placed = 0;
    for (Step& step : steps) {
        while (needs < segments.size() && segments[needs].round <= round_of_plan(step.number))
            ++needs;
        step.needs = needs;
        step.placed = placed = std::max(placed, step.placed);
    }
}

}  // namespace

Steps make_steps(std::vector<Pair>& destinations, std::vector<Pair>& sources,
                 std::span<const Segment> segments) {
    std::vector<std::uint64_t> numbers;
    for (const auto* pairs : {&destinations, &sources})
        for (const Pair& pair : *pairs) {
            for (const Round& round : pair.list.rounds) numbers.push_back(round.number);
            numbers.push_back(pair.list.answer_number());
        }
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    Steps steps;
    for (const std::uint64_t number : numbers) steps.list.emplace_back().number = number;
    for (auto* pairs : {&destinations, &sources})
        for (Pair& pair : *pairs)
            pair.last_step = step_of(steps.list, pair.list.rounds.back().number);
    for (const Pair& pair : destinations)
        steps.list[step_of(steps.list, pair.list.answer_number())].brings_mail = true;
    for (const Pair& pair : sources)
        for (std::size_t i = 0; i < pair.list.rounds.size(); ++i)
            if (pair.list.carries_epoch(i))
                steps.list[step_of(steps.list, pair.list.rounds[i].number)].brings_mail = true;
    stage(steps, destinations, &Step::pack);
    stage(steps, sources, &Step::unpack);
    cut_local_copies(steps, destinations);
    find_segments(steps.list, destinations, segments);
    return steps;
}

}  // namespace weightlift::transport::nccl
