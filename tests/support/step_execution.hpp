// Executes all ranks' parts of a plan in steps on small memories, element by element, in any order
// that gates and destinations allow. Whatever no transport may meet is a failure: a read of what
// has not arrived, a write to what is still read or not yet read, a byte written twice, a rank that
// waits forever.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "weightlift/plan/steps.hpp"

#include "support/random_layouts.hpp"

namespace weightlift::test {

inline constexpr std::uint64_t kUnwritten = ~std::uint64_t{0};
inline constexpr Bytes kElement = 2;  // all tensors are bf16 here

/// Whether staging must be read before it is written again, and hold something when it is read.
/// Not of broadcast, where a rank has whole tensors but needs parts, and gaps between them: what is
/// read too early there shows in the weights.
enum class Unread : bool { Allowed, Forbidden };

class StepExecution {
    template <class List>
    static auto& at(List& list, Rank rank) {
        return list[static_cast<std::size_t>(rank)];
    }

public:
    StepExecution(const plan::Planner& planner, const plan::StepPlanner& steps, Unread unread)
        : planner_(planner), unread_(unread) {
        for (Rank r = 0; r < planner.world_size(); ++r) {
            parts_.push_back(steps.part_of(r));
            weights_.push_back(identities(r));
        }
        check_form();
    }

    [[nodiscard]] const std::vector<plan::StepPart>& parts() const { return parts_; }
    /// For tests of this test: what is executed without one of the gates.
    void remove_gate(Rank rank, std::size_t gate) {
        auto& gates = at(parts_, rank).gates;
        gates.erase(gates.begin() + static_cast<std::ptrdiff_t>(gate));
    }

    /// Segments start and are placed at random times.
    void run_at_random(Random& random) {
        reset();
        std::vector<std::pair<Rank, Queue*>> open;
        for (Rank r = 0; r < planner_.world_size(); ++r)
            for (auto& [dst, queue] : at(queues_, r)) open.emplace_back(r, &queue);
        // Some runs start all they can, others place each at once.
        const std::uint64_t eagerness = pick(random, 0, 4);
        while (!open.empty()) {
            const std::size_t offset = pick(random, 0, open.size() - 1);
            bool is_stuck = true;
            for (std::size_t i = 0; i < open.size() && is_stuck; ++i) {
                auto& [rank, queue] = open[(offset + i) % open.size()];
                const bool may_start = queue->started < queue->segments.size() &&
                                       is_allowed(rank, queue->segments[queue->started]);
                const bool may_place = queue->placed < queue->started;
                if (!may_start && !may_place) continue;
                is_stuck = false;
                if (may_start && (!may_place || pick(random, 0, 4) <= eagerness)) {
                    start(rank, queue->segments[queue->started++]);
                    continue;
                }
                place(rank, queue->segments[queue->placed++]);
                if (queue->placed == queue->segments.size())
                    open.erase(open.begin() +
                               static_cast<std::ptrdiff_t>((offset + i) % open.size()));
            }
            if (is_stuck) fail("all ranks wait for each other");
        }
        check_end();
    }

    /// All sends and receives of a round together, before the next begins.
    void run_round_by_round() {
        reset();
        std::map<std::uint32_t, std::vector<std::pair<Rank, std::uint32_t>>> rounds;
        for (Rank r = 0; r < planner_.world_size(); ++r)
            for (std::uint32_t s = 0; s < at(parts_, r).sent.size(); ++s)
                rounds[at(parts_, r).sent[s].round].emplace_back(r, s);
        for (const auto& [round, segments] : rounds) {
            for (const auto& [rank, segment] : segments)
                if (!is_allowed(rank, segment))
                    fail(fmt::format("segment {} of rank {} must wait in its round {}", segment,
                                     rank, round));
            for (const auto& [rank, segment] : segments) start(rank, segment);
            for (const auto& [rank, segment] : segments) place(rank, segment);
        }
        check_end();
    }

private:
    struct Element {
        std::uint64_t value = kUnwritten;
        std::uint32_t readers = 0;
        bool is_written_to = false, is_unread = false;
    };
    struct Queue {
        std::vector<std::uint32_t> segments;
        std::size_t started = 0, placed = 0;
    };

    [[noreturn]] static void fail(const std::string& what) { throw std::logic_error(what); }

    [[nodiscard]] bool is_trainer(Rank rank) const { return rank < planner_.trainers(); }
    [[nodiscard]] const layout::Layout& layout_of(Rank rank) const {
        return is_trainer(rank) ? planner_.trainer() : planner_.rollout();
    }
    [[nodiscard]] Rank side_rank(Rank rank) const {
        return is_trainer(rank) ? rank : rank - planner_.trainers();
    }

    [[nodiscard]] std::vector<std::uint64_t> identities(Rank plan_rank) const {
        const layout::Layout& layout = layout_of(plan_rank);
        const plan::ArenaMap map(layout, side_rank(plan_rank));
        std::vector<std::uint64_t> values(map.bytes() / kElement, kUnwritten);
        for (std::size_t i = 0; i < map.parameters().size(); ++i)
            for (const auto& piece : layout.parameter(map.parameters()[i]).pieces)
                for (std::uint64_t r = 0; r < piece.box.rows.size(); ++r)
                    for (std::uint64_t c = 0; c < piece.box.columns.size(); ++c)
                        values[(map.offset_at(i) + piece.offset + r * piece.pitch) / kElement + c] =
                            (std::uint64_t{piece.tensor} << 40) +
                            (piece.box.rows.begin + r) *
                                planner_.model().tensor(piece.tensor).columns +
                            piece.box.columns.begin + c;
        return values;
    }

    template <class Visit>
    static void for_each_element(const plan::StepSegment& segment, Visit&& visit) {
        for (const plan::Copy& copy : segment.copies)
            for (std::uint64_t r = 0; r < copy.rows; ++r)
                for (Bytes b = 0; b < copy.row_bytes; b += kElement)
                    visit((copy.src_offset + r * copy.src_pitch + b) / kElement,
                          (copy.dst_offset + r * copy.dst_pitch + b) / kElement);
    }

    void check_form() {
        std::map<std::pair<Rank, Rank>, std::vector<plan::StepSegment>> sent, received;
        std::uint64_t sent_digest = 0, received_digest = 0;
        for (Rank r = 0; r < planner_.world_size(); ++r) {
            const plan::StepPart& part = at(parts_, r);
            sent_digest += plan::StepPlanner::digest(part.sent);
            received_digest += plan::StepPlanner::digest(part.received);
            for (std::size_t s = 0; s < part.sent.size(); ++s) {
                if (part.sent[s].src != r) fail("a sent segment has another source");
                if (s > 0 && part.sent[s].round < part.sent[s - 1].round)
                    fail(fmt::format("rounds of rank {} do not ascend", r));
                sent[{r, part.sent[s].dst}].push_back(part.sent[s]);
            }
            Rank last = 0;
            std::map<Rank, std::vector<std::uint32_t>> rounds;
            for (const auto& segment : part.received) {
                if (segment.dst != r || segment.src < last) fail("received out of order");
                last = segment.src;
                rounds[segment.src].push_back(segment.round);
                received[{segment.src, r}].push_back(segment);
            }
            rounds[r].clear();
            for (const auto& segment : part.sent) rounds[r].push_back(segment.round);
            for (std::size_t g = 0; g < part.gates.size(); ++g) {
                const plan::Gate& gate = part.gates[g];
                if (g > 0 && gate.segment < part.gates[g - 1].segment) fail("gates do not ascend");
                if (gate.segment >= part.sent.size() || gate.count == 0 ||
                    gate.count > rounds[gate.source].size())
                    fail("a gate waits for what there is not");
                if (rounds[gate.source][gate.count - 1] >= part.sent[gate.segment].round)
                    fail("a gate waits for a round that is not smaller");
            }
        }
        if (sent != received) fail("senders and receivers disagree");
        if (sent_digest != received_digest) fail("digests differ");
    }

    void reset() {
        memory_.assign(parts_.size(), {});
        queues_.assign(parts_.size(), {});
        own_placed_.assign(parts_.size(), {});
        placed_from_.assign(parts_.size(), {});
        gates_.assign(parts_.size(), {});
        for (Rank r = 0; r < planner_.world_size(); ++r) {
            const plan::StepPart& part = at(parts_, r);
            at(memory_, r).resize(at(weights_, r).size() + part.staging / kElement);
            if (is_trainer(r))
                for (std::size_t i = 0; i < at(weights_, r).size(); ++i)
                    at(memory_, r)[i].value = at(weights_, r)[i];
            for (std::uint32_t s = 0; s < part.sent.size(); ++s)
                at(queues_, r)[part.sent[s].dst].segments.push_back(s);
            at(own_placed_, r).resize(part.sent.size());
            for (const plan::Gate& gate : part.gates) at(gates_, r)[gate.segment].push_back(gate);
        }
    }

    /// Earlier segments to the same destination have started.
    [[nodiscard]] bool is_allowed(Rank rank, std::uint32_t segment) {
        const auto gates = at(gates_, rank).find(segment);
        if (gates == at(gates_, rank).end()) return true;
        for (const plan::Gate& gate : gates->second) {
            if (gate.source != rank) {
                if (at(placed_from_, rank)[gate.source] < gate.count) return false;
            } else {
                for (std::uint32_t s = 0; s < gate.count; ++s)
                    if (!at(own_placed_, rank)[s]) return false;
            }
        }
        return true;
    }

    Element& element(Rank rank, std::size_t index) {
        if (index >= at(memory_, rank).size())
            fail(fmt::format("element {} of rank {} is beyond weights and staging", index, rank));
        return at(memory_, rank)[index];
    }

    void start(Rank rank, std::uint32_t number) {
        const plan::StepSegment& segment = at(parts_, rank).sent[number];
        for_each_element(segment, [&](std::size_t from, std::size_t to) {
            Element& src = element(rank, from);
            const bool may_be_empty =
                unread_ == Unread::Allowed && from >= at(weights_, rank).size();
            if (src.is_written_to || (src.value == kUnwritten && !may_be_empty))
                fail(fmt::format("segment {} of rank {} reads element {} before it is there",
                                 number, rank, from));
            ++src.readers;
            Element& dst = element(segment.dst, to);
            const bool is_weight = to < at(weights_, segment.dst).size();
            if (dst.readers > 0 || dst.is_written_to ||
                (dst.is_unread && unread_ == Unread::Forbidden))
                fail(fmt::format("segment {} of rank {} writes element {} of {} while in use",
                                 number, rank, to, segment.dst));
            if (is_weight && dst.value != kUnwritten)
                fail(fmt::format("segment {} of rank {} writes weight {} of {} again", number, rank,
                                 to, segment.dst));
            dst.is_written_to = true;
            dst.value = kUnwritten;
        });
    }

    void place(Rank rank, std::uint32_t number) {
        const plan::StepSegment& segment = at(parts_, rank).sent[number];
        for_each_element(segment, [&](std::size_t from, std::size_t to) {
            Element &src = element(rank, from), &dst = element(segment.dst, to);
            dst.value = src.value;
            dst.is_written_to = false;
            dst.is_unread = to >= at(weights_, segment.dst).size();
            src.is_unread = false;
            --src.readers;
        });
        at(own_placed_, rank)[number] = true;
        ++at(placed_from_, segment.dst)[rank];
    }

    void check_end() {
        for (Rank r = 0; r < planner_.world_size(); ++r)
            for (std::size_t i = 0; i < at(memory_, r).size(); ++i) {
                const Element& e = at(memory_, r)[i];
                if (i < at(weights_, r).size() && e.value != at(weights_, r)[i])
                    fail(fmt::format("element {} of rank {} is {}, wanted {}", i, r, e.value,
                                     at(weights_, r)[i]));
                if (e.is_unread && unread_ == Unread::Forbidden)
                    fail(fmt::format("element {} of rank {} was never read", i, r));
            }
    }

    const plan::Planner& planner_;
    Unread unread_;
    std::vector<plan::StepPart> parts_;
    std::vector<std::vector<std::uint64_t>> weights_;  ///< as they must be in the end
    std::vector<std::vector<Element>> memory_;         ///< weights, then staging
    std::vector<std::map<Rank, Queue>> queues_;        ///< by destination
    std::vector<std::vector<bool>> own_placed_;
    std::vector<std::map<Rank, std::uint32_t>> placed_from_;
    std::vector<std::map<std::uint32_t, std::vector<plan::Gate>>> gates_;  ///< by segment
};

/// The same engine several times.
inline layout::Layout repeat_engines(const model::ModelSpec& model, const layout::Layout& engine,
                                     int times) {
    const Rank world = engine.world_size();
    layout::LayoutBuilder builder(layout::Side::Rollout, "repeated", world * times);
    for (int e = 0; e < times; ++e) builder.begin_engine(world * e);
    for (layout::Parameter parameter : engine.parameters()) {
        std::vector<Rank> ranks;
        for (int e = 0; e < times; ++e)
            for (const Rank r : engine.rank_set(parameter.ranks)) ranks.push_back(world * e + r);
        parameter.ranks = builder.rank_set(std::move(ranks));
        builder.add(std::move(parameter));
    }
    return std::move(builder).finish(model);
}

}  // namespace weightlift::test
