// The relay's view of a rollout layout: what each set of ranks shares is one range of addresses,
// cut into chunks; and each chunk's way through the ranks of its set.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "weightlift/plan/planner.hpp"
#include "weightlift/plan/steps.hpp"

#include "lanes.hpp"
#include "pieces.hpp"

namespace weightlift::plan::steps {

enum RelayStep : std::uint32_t { kEnter, kRelay, kFanOut };

/// The parameters that one set of rollout ranks holds.
struct SharedRange {
    Groups groups;
    Chunks chunks;
    std::vector<layout::ParameterIndex> parameters;
    std::vector<Bytes> begins;     ///< address of each
    std::vector<Bytes> positions;  ///< what the first rank has taken in before each, over one lane

    /// The rank that takes a chunk in from the trainers.
    [[nodiscard]] Rank entry_of(std::uint64_t chunk) const {
        const auto seat = chunks.seat(chunk);
        return groups.of_lane(seat / groups.lanes(), seat % groups.lanes());
    }
};

/// A chunk at one rank: from whom, to whom, and how long after it entered.
struct Stop {
    RelayStep step = kEnter;     ///< of arrival
    std::optional<Rank> before;  ///< none: the trainers
    std::optional<Rank> in_ring, in_group;
    std::uint32_t hops = 0;
};
[[nodiscard]] Stop stop_at(const SharedRange& range, const Groups::Seat& seat, std::uint64_t chunk);

class RelayRanges {
public:
    RelayRanges(const Planner& planner, const StepOptions& options);

    [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(ranges_.size()); }
    [[nodiscard]] const SharedRange& operator[](layout::RankSetId id) const { return ranges_[id]; }
    /// Plan rank of a set's first: the direct transfers into it say who gives what.
    [[nodiscard]] Rank first_of(layout::RankSetId id) const {
        return planner_.trainers() + planner_.rollout().rank_set(id).front();
    }
    /// Where a rollout parameter begins in its set's range.
    [[nodiscard]] Bytes address_of(layout::ParameterIndex parameter) const {
        return begin_of_[parameter];
    }
    /// Round in which a chunk enters.
    [[nodiscard]] std::uint32_t base_round(const SharedRange& range, std::uint64_t chunk) const;

    /// A run of a parameter; offsets from its start on both sides.
    struct Part {
        layout::ParameterIndex parameter = 0;
        Copy copy;
    };
    /// What each chunk consists of, without padding; the same on all ranks of the set.
    [[nodiscard]] std::vector<std::vector<Part>> content_of(const SharedRange& range) const;

    /// Calls visit(set, chunk, copy) for the parts of a transfer into the first rank of a set, with
    /// offsets from the starts of the parameters.
    template <class Visit>
    void visit_parts(const Transfer& t, PieceFinder& find_piece, Visit&& visit) const {
        const layout::Parameter& parameter = planner_.rollout().parameter(t.dst.parameter);
        const Bytes element = element_bytes(parameter.dtype);
        const layout::Piece& piece = find_piece(t);
        const Units units(piece, element);
        const std::uint64_t begin = units.are_rows
                                        ? t.box.rows.begin - piece.box.rows.begin
                                        : (t.box.columns.begin - piece.box.columns.begin) * element;
        const Copy whole{0,           t.src.offset, t.src.pitch, t.dst.offset,
                         t.dst.pitch, t.rows,       t.row_bytes};
        visit_chunks(t.dst.parameter, piece, units, begin,
                     begin + (units.are_rows ? t.rows : t.row_bytes),
                     [&](std::uint64_t chunk, std::uint64_t from, std::uint64_t to) {
                         visit(parameter.ranks, chunk,
                               units.are_rows ? rows_of(whole, from - begin, to - from)
                                              : bytes_of(whole, from - begin, to - from));
                     });
    }

private:
    void find_positions();

    /// Calls visit(chunk, begin, end) for the parts of units [begin, end) of a piece.
    template <class Visit>
    void visit_chunks(layout::ParameterIndex parameter, const layout::Piece& piece,
                      const Units& units, std::uint64_t begin, std::uint64_t end,
                      Visit&& visit) const {
        const Chunks& chunks = ranges_[planner_.rollout().parameter(parameter).ranks].chunks;
        const Bytes start = begin_of_[parameter] + piece.offset;
        while (begin < end) {
            const auto chunk = chunks.at(start + begin * units.pitch);
            // A row belongs to the chunk in which it begins.
            const auto until =
                chunk + 1 == chunks.count()
                    ? end
                    : std::min(end, ceil_div(chunks.begin(chunk + 1) - start, units.pitch));
            visit(chunk, begin, until);
            begin = until;
        }
    }

    const Planner& planner_;
    Bytes chunk_;
    std::vector<SharedRange> ranges_;  ///< by rank set
    std::vector<Bytes> begin_of_;      ///< address of each rollout parameter in its set's range
};

}  // namespace weightlift::plan::steps
