// relay: nothing is staged; a rank passes on what it has received, from its own weights.
//
// The rollout ranks that hold equal shards (a rank set of the layout) see their parameters as one
// range of addresses, cut into chunks. A chunk enters one rank of one group (node) of the set,
// passes once round the groups and inside each round its members. The direct transfers into the
// set's first rank say which trainer gives which byte of it; they leave the trainers once.
//
//   round:  base    base+1    base+2             all chunks of a turn enter at once, one for
//   enter   g1 g2 g3                             each lane of each group; a turn takes as many
//   relay           g1>g2 ..  g1>g2 ..           rounds as there are groups.
//   fan out         in g1 ..  in g1 ..
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "arenas.hpp"
#include "part_builder.hpp"
#include "relay_ranges.hpp"
#include "strategy_plan.hpp"

namespace weightlift::plan::steps {

namespace {

using layout::ParameterIndex;
using layout::RankSetId;

constexpr std::string_view kSteps[] = {"enter", "relay", "fan out"};

class Relay final : public StrategyPlan {
public:
    Relay(const Planner& planner, const StepOptions& options)
        : planner_(planner),
          options_(options),
          trainers_(planner.trainer()),
          rollouts_(planner.rollout()),
          ranges_(planner, options) {}

    [[nodiscard]] std::span<const std::string_view> steps() const override { return kSteps; }

    [[nodiscard]] StepPart part_of(Rank plan_rank) const override {
        PartBuilder builder(plan_rank);
        if (plan_rank < planner_.trainers())
            send_own(plan_rank, builder);
        else
            pass_on(plan_rank, builder);
        return std::move(builder).finish(0);
    }

private:
    /// Sources begin at different destinations; the receiver's order depends on one source alone.
    [[nodiscard]] Key entering_key(RankSetId id, std::uint64_t chunk, Rank source,
                                   Rank destination) const {
        const auto n = static_cast<std::uint64_t>(planner_.rollouts());
        const auto first = first_destination(static_cast<std::uint64_t>(source),
                                             static_cast<std::uint64_t>(planner_.trainers()), n);
        const auto index = static_cast<std::uint64_t>(destination - planner_.trainers());
        return {ranges_.base_round(ranges_[id], chunk),
                static_cast<std::uint32_t>((index + n - first) % n),
                (std::uint64_t{id} << 32) | chunk};
    }

    void send_own(Rank self, PartBuilder& builder) const {
        const Layout& rollout = planner_.rollout();
        Arenas arenas(planner_, trainers_, rollouts_);
        PieceFinder find_piece(rollout);
        std::map<std::pair<RankSetId, std::uint64_t>, std::vector<Copy>> segments;
        const auto is_first = [&](ParameterIndex p, Rank rank) {
            return rank == ranges_.first_of(rollout.parameter(p).ranks);
        };
        const ArenaMap& own = arenas[self];
        for (const Transfer& t : planner_.sent_by(self, is_first))
            ranges_.visit_parts(t, find_piece, [&](RankSetId id, std::uint64_t chunk, Copy copy) {
                copy.src_offset += own.offset_of(t.src.parameter);
                copy.dst_offset += arenas[ranges_[id].entry_of(chunk)].offset_of(t.dst.parameter);
                append_copy(segments[{id, chunk}], copy);
            });
        for (auto& [place, copies] : segments) {
            const auto [id, chunk] = place;
            const Rank destination = ranges_[id].entry_of(chunk);
            builder.send(destination, kEnter, entering_key(id, chunk, self, destination),
                         std::move(copies));
        }
    }

    /// Copies of one chunk, by source; offsets at the destination's side alone.
    using Entering = std::map<std::pair<std::uint64_t, Rank>, std::vector<Copy>>;

    void pass_on(Rank self, PartBuilder& builder) const {
        Arenas arenas(planner_, trainers_, rollouts_);
        const auto& sets = rollouts_.sets_of(rollouts_.kind_of(self - planner_.trainers()));
        std::map<RankSetId, Entering> entering;
        std::set<Rank> firsts;
        for (const RankSetId id : sets) firsts.insert(ranges_.first_of(id));
        PieceFinder find_piece(planner_.rollout());
        const ArenaMap& own = arenas[self];
        for (const Rank first : firsts)
            for (const Transfer& t : planner_.received_by(first)) {
                const RankSetId in = planner_.rollout().parameter(t.dst.parameter).ranks;
                if (ranges_.first_of(in) != first ||
                    !std::binary_search(sets.begin(), sets.end(), in))
                    continue;
                ranges_.visit_parts(
                    t, find_piece, [&](RankSetId id, std::uint64_t chunk, Copy copy) {
                        if (ranges_[id].entry_of(chunk) != self) return;
                        copy.src_offset += arenas[t.src.rank].offset_of(t.src.parameter);
                        copy.dst_offset += own.offset_of(t.dst.parameter);
                        append_copy(entering[id][{chunk, t.src.rank}], copy);
                    });
            }
        for (const RankSetId id : sets) pass_on_range(self, id, entering[id], arenas, builder);
    }

    void pass_on_range(Rank self, RankSetId id, Entering& entering, Arenas& arenas,
                       PartBuilder& builder) const {
        const SharedRange& range = ranges_[id];
        const Groups::Seat seat = range.groups.seat_of(self);
        const auto content = ranges_.content_of(range);
        const auto copies_between = [&](Rank from, Rank to, std::uint64_t chunk) {
            const ArenaMap &src = arenas[from], &dst = arenas[to];
            std::vector<Copy> copies;
            for (RelayRanges::Part part : content[chunk]) {
                part.copy.src_offset += src.offset_of(part.parameter);
                part.copy.dst_offset += dst.offset_of(part.parameter);
                append_copy(copies, part.copy);
            }
            return copies;
        };
        for (std::uint64_t chunk = 0; chunk < content.size(); ++chunk) {
            if (content[chunk].empty()) continue;
            const Stop stop = stop_at(range, seat, chunk);
            const std::uint64_t name = (std::uint64_t{id} << 32) | chunk;
            const std::uint32_t round = ranges_.base_round(range, chunk) + stop.hops;
            const Key arrival{round, stop.step, name};
            const auto begin = entering.lower_bound({chunk, 0});
            const auto end = entering.lower_bound({chunk + 1, 0});
            WEIGHTLIFT_ENSURES(stop.before.has_value() == (begin == end));
            if (stop.before)
                builder.receive(*stop.before, stop.step, arrival,
                                copies_between(*stop.before, self, chunk));
            for (auto at = begin; at != end; ++at)
                builder.receive(at->first.second, kEnter,
                                entering_key(id, chunk, at->first.second, self),
                                std::move(at->second));
            const auto pass = [&](const std::optional<Rank>& next, RelayStep step) {
                if (!next) return;
                const auto sent = builder.send(*next, step, {round + 1, step, name},
                                               copies_between(self, *next, chunk));
                if (stop.before) builder.wait_for(sent, *stop.before, arrival);
                for (auto at = begin; at != end; ++at)
                    builder.wait_for(sent, at->first.second,
                                     entering_key(id, chunk, at->first.second, self));
            };
            pass(stop.in_ring, kRelay);
            pass(stop.in_group, kFanOut);
        }
    }

    const Planner& planner_;
    StepOptions options_;
    RankKinds trainers_, rollouts_;
    RelayRanges ranges_;
};

}  // namespace

std::unique_ptr<const StrategyPlan> make_relay(const Planner& planner, const StepOptions& options) {
    return std::make_unique<const Relay>(planner, options);
}

}  // namespace weightlift::plan::steps
