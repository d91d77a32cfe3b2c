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
#include <numeric>
#include <optional>
#include <set>

#include "weightlift/base/hash.hpp"

#include "arenas.hpp"
#include "lanes.hpp"
#include "part_builder.hpp"
#include "pieces.hpp"
#include "strategy_plan.hpp"

namespace weightlift::plan::steps {

namespace {

using layout::Parameter;
using layout::ParameterIndex;
using layout::Piece;
using layout::RankSetId;

constexpr std::string_view kSteps[] = {"enter", "relay", "fan out"};
enum Step : std::uint32_t { kEnter, kRelay, kFanOut };

/// The parameters that one set of rollout ranks holds.
struct SharedRange {
    Groups groups;
    Chunks chunks;
    std::vector<ParameterIndex> parameters;
    std::vector<Bytes> begins;     ///< address of each
    std::vector<Bytes> positions;  ///< what the first rank has taken in before each, over one lane
};

class Relay final : public StrategyPlan {
public:
    Relay(const Planner& planner, const StepOptions& options)
        : planner_(planner),
          options_(options),
          trainers_(planner.trainer()),
          rollouts_(planner.rollout()) {
        const Layout& rollout = planner.rollout();
        std::vector<std::vector<ParameterIndex>> parameters(rollout.rank_set_count());
        begin_of_.reserve(rollout.parameters().size());
        std::vector<Bytes> ends(rollout.rank_set_count());
        for (ParameterIndex p = 0; p < rollout.parameters().size(); ++p) {
            const Parameter& parameter = rollout.parameter(p);
            parameters[parameter.ranks].push_back(p);
            begin_of_.push_back(ends[parameter.ranks]);
            ends[parameter.ranks] += round_up(parameter.bytes(), kArenaAlignment);
        }
        for (RankSetId id = 0; id < rollout.rank_set_count(); ++id) {
            std::vector<Rank> ranks;
            for (const Rank r : rollout.rank_set(id)) ranks.push_back(planner.trainers() + r);
            Groups groups(ranks, options.node);
            const auto seats = groups.size() * groups.lanes();
            ranges_.push_back({std::move(groups),
                               Chunks(ends[id], seats, options.chunk, splitmix64(id)),
                               std::move(parameters[id]),
                               {},
                               {}});
        }
        find_positions();
    }

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
    [[nodiscard]] Rank first_of(RankSetId id) const {
        return planner_.trainers() + planner_.rollout().rank_set(id).front();
    }

    /// Time of a parameter is measured in what each lane has to take in before it, on the set's
    /// first rank: about the same on the others.
    void find_positions() {
        const Layout& rollout = planner_.rollout();
        std::set<Rank> firsts;
        for (RankSetId id = 0; id < ranges_.size(); ++id)
            if (!ranges_[id].parameters.empty()) firsts.insert(rollout.rank_set(id).front());
        std::vector<std::vector<Rank>> among(ranges_.size());
        for (RankSetId id = 0; id < ranges_.size(); ++id)
            for (const Rank first : firsts)
                if (rollout.holds(id, first)) among[id].push_back(first);
        std::vector<Bytes> taken(static_cast<std::size_t>(rollout.world_size()));
        for (ParameterIndex p = 0; p < rollout.parameters().size(); ++p) {
            const RankSetId id = rollout.parameter(p).ranks;
            SharedRange& range = ranges_[id];
            range.begins.push_back(begin_of_[p]);
            range.positions.push_back(
                taken[static_cast<std::size_t>(rollout.rank_set(id).front())]);
            const Bytes more = ceil_div(rollout.parameter(p).bytes(), range.groups.lanes());
            for (const Rank first : among[id]) taken[static_cast<std::size_t>(first)] += more;
        }
    }

    /// Round in which a chunk enters.
    [[nodiscard]] std::uint32_t base_round(const SharedRange& range, std::uint64_t chunk) const {
        const Bytes address = range.chunks.begin(range.chunks.turn(chunk) * range.chunks.seats());
        const auto after = std::upper_bound(range.begins.begin(), range.begins.end(), address);
        const auto i = static_cast<std::size_t>(after - range.begins.begin()) - 1;
        const Bytes position =
            range.positions[i] + (address - range.begins[i]) / range.groups.lanes();
        return narrow<std::uint32_t>(position / options_.chunk, "rounds of a plan");
    }

    /// Sources begin at different destinations; the receiver's order depends on one source alone.
    [[nodiscard]] Key entering_key(RankSetId id, std::uint64_t chunk, Rank source,
                                   Rank destination) const {
        const auto n = static_cast<std::uint64_t>(planner_.rollouts());
        const auto first = first_destination(static_cast<std::uint64_t>(source),
                                             static_cast<std::uint64_t>(planner_.trainers()), n);
        const auto index = static_cast<std::uint64_t>(destination - planner_.trainers());
        return {base_round(ranges_[id], chunk), static_cast<std::uint32_t>((index + n - first) % n),
                (std::uint64_t{id} << 32) | chunk};
    }

    [[nodiscard]] static Rank entry_of(const SharedRange& range, std::uint64_t chunk) {
        const auto seat = range.chunks.seat(chunk);
        return range.groups.of_lane(seat / range.groups.lanes(), seat % range.groups.lanes());
    }

    /// Calls visit(chunk, begin, end) for the parts of units [begin, end) of a piece.
    template <class Visit>
    void visit_chunks(const SharedRange& range, ParameterIndex parameter, const Piece& piece,
                      const Units& units, std::uint64_t begin, std::uint64_t end,
                      Visit&& visit) const {
        const Bytes start = begin_of_[parameter] + piece.offset;
        while (begin < end) {
            const auto chunk = range.chunks.at(start + begin * units.pitch);
            // A row belongs to the chunk in which it begins.
            const Bytes border = chunk + 1 == range.chunks.count()
                                     ? ~Bytes{0}
                                     : range.chunks.begin(chunk + 1) - start;
            const auto until = std::min(end, ceil_div(border, units.pitch));
            visit(chunk, begin, until);
            begin = until;
        }
    }

    /// Calls visit(set, chunk, copy from weights to weights, both offsets from the starts of the
    /// parameters) for the parts of a transfer into the first rank of a set.
    template <class Visit>
    void visit_parts(const Transfer& t, PieceFinder& find_piece, Visit&& visit) const {
        const Parameter& parameter = planner_.rollout().parameter(t.dst.parameter);
        const SharedRange& range = ranges_[parameter.ranks];
        const Bytes element = element_bytes(parameter.dtype);
        const Piece& piece = find_piece(t);
        const Units units(piece, element);
        const std::uint64_t begin = units.are_rows
                                        ? t.box.rows.begin - piece.box.rows.begin
                                        : (t.box.columns.begin - piece.box.columns.begin) * element;
        const Copy whole{0,           t.src.offset, t.src.pitch, t.dst.offset,
                         t.dst.pitch, t.rows,       t.row_bytes};
        visit_chunks(range, t.dst.parameter, piece, units, begin,
                     begin + (units.are_rows ? t.rows : t.row_bytes),
                     [&](std::uint64_t chunk, std::uint64_t from, std::uint64_t to) {
                         visit(parameter.ranks, chunk,
                               units.are_rows ? rows_of(whole, from - begin, to - from)
                                              : bytes_of(whole, from - begin, to - from));
                     });
    }

    void send_own(Rank self, PartBuilder& builder) const {
        const Layout& rollout = planner_.rollout();
        Arenas arenas(planner_, trainers_, rollouts_);
        PieceFinder find_piece(rollout);
        std::map<std::pair<RankSetId, std::uint64_t>, std::vector<Copy>> segments;
        const auto is_first = [&](ParameterIndex p, Rank rank) {
            return rank == first_of(rollout.parameter(p).ranks);
        };
        const ArenaMap& own = arenas[self];
        for (const Transfer& t : planner_.sent_by(self, is_first))
            visit_parts(t, find_piece, [&](RankSetId id, std::uint64_t chunk, Copy copy) {
                copy.src_offset += own.offset_of(t.src.parameter);
                copy.dst_offset += arenas[entry_of(ranges_[id], chunk)].offset_of(t.dst.parameter);
                append_copy(segments[{id, chunk}], copy);
            });
        for (auto& [place, copies] : segments) {
            const auto [id, chunk] = place;
            const Rank destination = entry_of(ranges_[id], chunk);
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
        for (const RankSetId id : sets) firsts.insert(first_of(id));
        PieceFinder find_piece(planner_.rollout());
        const ArenaMap& own = arenas[self];
        for (const Rank first : firsts)
            for (const Transfer& t : planner_.received_by(first)) {
                const RankSetId in = planner_.rollout().parameter(t.dst.parameter).ranks;
                if (first_of(in) != first || !std::binary_search(sets.begin(), sets.end(), in))
                    continue;
                visit_parts(t, find_piece, [&](RankSetId id, std::uint64_t chunk, Copy copy) {
                    if (entry_of(ranges_[id], chunk) != self) return;
                    copy.src_offset += arenas[t.src.rank].offset_of(t.src.parameter);
                    copy.dst_offset += own.offset_of(t.dst.parameter);
                    append_copy(entering[id][{chunk, t.src.rank}], copy);
                });
            }
        for (const RankSetId id : sets) pass_on_range(self, id, entering[id], arenas, builder);
    }

    /// The chunk's way through this rank: from whom, to whom, and when.
    struct Stop {
        std::optional<Rank> before, in_ring, in_group;
        std::uint32_t round = 0;  ///< of arrival
        std::uint32_t step = kEnter;
    };
    [[nodiscard]] Stop stop_at(const SharedRange& range, const Groups::Seat& seat,
                               std::uint64_t chunk) const {
        const Groups& groups = range.groups;
        const auto lane = range.chunks.seat(chunk) % groups.lanes();
        const auto entry = range.chunks.seat(chunk) / groups.lanes();
        const auto hop = (seat.group + groups.size() - entry) % groups.size();
        const auto& members = groups.members(seat.group);
        const auto fan = (seat.member + members.size() - groups.member_of_lane(seat.group, lane)) %
                         members.size();
        Stop stop;
        stop.round = base_round(range, chunk) + static_cast<std::uint32_t>(hop + fan);
        if (fan > 0) {
            stop.step = kFanOut;
            stop.before = members[(seat.member + members.size() - 1) % members.size()];
        } else if (hop > 0) {
            stop.step = kRelay;
            stop.before = groups.of_lane((seat.group + groups.size() - 1) % groups.size(), lane);
        }
        if (fan == 0 && hop + 1 < groups.size())
            stop.in_ring = groups.of_lane((seat.group + 1) % groups.size(), lane);
        if (fan + 1 < members.size()) stop.in_group = members[(seat.member + 1) % members.size()];
        return stop;
    }

    void pass_on_range(Rank self, RankSetId id, Entering& entering, Arenas& arenas,
                       PartBuilder& builder) const {
        const SharedRange& range = ranges_[id];
        const Groups::Seat seat = range.groups.seat_of(self);
        // By chunk: what it consists of, the same on all ranks but for the offsets of parameters.
        struct Part {
            ParameterIndex parameter;
            Copy copy;
        };
        std::vector<std::vector<Part>> content(range.chunks.count());
        for (const ParameterIndex p : range.parameters) {
            const Parameter& parameter = planner_.rollout().parameter(p);
            const Bytes element = element_bytes(parameter.dtype);
            for (const Piece& piece : parameter.pieces) {
                const Units units(piece, element);
                const Copy whole{0,
                                 piece.offset,
                                 piece.pitch,
                                 piece.offset,
                                 piece.pitch,
                                 piece.box.rows.size(),
                                 piece.box.columns.size() * element};
                visit_chunks(range, p, piece, units, 0, units.count,
                             [&](std::uint64_t chunk, std::uint64_t from, std::uint64_t to) {
                                 content[chunk].push_back(
                                     {p, units.are_rows ? rows_of(whole, from, to - from)
                                                        : bytes_of(whole, from, to - from)});
                             });
            }
        }
        const auto copies_between = [&](Rank from, Rank to, std::uint64_t chunk) {
            const ArenaMap &src = arenas[from], &dst = arenas[to];
            std::vector<Copy> copies;
            for (Part part : content[chunk]) {
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
            const Key arrival{stop.round, stop.step, name};
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
            const auto pass = [&](const std::optional<Rank>& next, Step step) {
                if (!next) return;
                const auto sent = builder.send(*next, step, {stop.round + 1, step, name},
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
    std::vector<SharedRange> ranges_;  ///< by rank set
    std::vector<Bytes> begin_of_;      ///< address of each rollout parameter in its set's range
};

}  // namespace

std::unique_ptr<const StrategyPlan> make_relay(const Planner& planner, const StepOptions& options) {
    return std::make_unique<const Relay>(planner, options);
}

}  // namespace weightlift::plan::steps
