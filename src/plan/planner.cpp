#include "weightlift/plan/planner.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/plan/shares.hpp"

namespace weightlift::plan {

using layout::Parameter;
using layout::ParameterIndex;
using layout::Piece;
using layout::PieceRef;
using layout::RankSetId;
using layout::TensorId;

namespace {

/// A part of a rollout piece on which the set of trainers that hold it is constant.
struct Cell {
    ParameterIndex parameter = 0;  ///< of the rollout layout
    std::uint32_t piece = 0;
    Box box;
    std::uint32_t sources_begin = 0, sources_end = 0;  ///< trainer pieces, in State::sources
    std::uint32_t owners = 0;                          ///< index into State::owners
};

/// The trainers that hold a cell, and the groups that serve its destinations.
struct Owners {
    std::vector<Rank> ranks;                          ///< ascending
    std::uint32_t everyone = 0;                       ///< group of all of them
    std::unordered_map<int, std::uint32_t> by_place;  ///< group of one process
    std::unordered_map<int, std::uint32_t> by_node;   ///< group of those on a node
    std::unordered_map<int, std::uint32_t> by_rail;   ///< group of those on a rail
};

std::string describe(const model::TensorSpec& tensor, const Box& box) {
    return fmt::format("{} rows [{}, {}) columns [{}, {})", tensor.name, box.rows.begin,
                       box.rows.end, box.columns.begin, box.columns.end);
}

Box part_of(const Box& box, std::uint64_t begin, std::uint64_t end) {
    // A single row is cut by columns, all else by rows.
    if (box.rows.size() == 1)
        return {box.rows, {box.columns.begin + begin, box.columns.begin + end}};
    return {{box.rows.begin + begin, box.rows.begin + end}, box.columns};
}

Endpoint endpoint_in(const Piece& piece, ParameterIndex parameter, Rank rank, const Box& box,
                     std::uint64_t element) {
    return {rank, Buffer::Weights, parameter,
            piece.offset + (box.rows.begin - piece.box.rows.begin) * piece.pitch +
                (box.columns.begin - piece.box.columns.begin) * element,
            piece.pitch};
}

}  // namespace

struct Planner::State {
    const ModelSpec& model;
    const Layout& trainer;
    const Layout& rollout;
    PlanOptions options;

    std::vector<Cell> cells;                     ///< by rollout parameter, piece, box
    std::vector<std::uint32_t> parameter_begin;  ///< cells of parameter i: [i], [i+1]
    std::vector<std::uint32_t> tensor_cells, tensor_begin;
    std::vector<PieceRef> sources;
    std::vector<Owners> owners;
    std::vector<HolderGroup> groups;
    std::vector<std::vector<std::uint32_t>> weights;  ///< per group
    std::vector<std::uint64_t> trainer_names, rollout_names;

    State(const ModelSpec& m, const Layout& t, const Layout& r, PlanOptions o)
        : model(m), trainer(t), rollout(r), options(std::move(o)) {
        const auto world =
            static_cast<std::size_t>(t.world_size()) + static_cast<std::size_t>(r.world_size());
        WEIGHTLIFT_ENSURES(options.place.empty() || options.place.size() == world);
        WEIGHTLIFT_ENSURES(options.node.empty() || options.node.size() == world);
        WEIGHTLIFT_ENSURES(options.rail.empty() || options.rail.size() == world);
        make_cells();
        index_cells_by_tensor();
        share_load();
        for (const Parameter& p : trainer.parameters()) trainer_names.push_back(hash_name(p.name));
        for (const Parameter& p : rollout.parameters()) rollout_names.push_back(hash_name(p.name));
    }

    [[nodiscard]] const Piece& source_piece(PieceRef ref) const {
        return trainer.parameter(ref.parameter).pieces[ref.piece];
    }

    /// Of a rollout rank, in lists by plan rank.
    [[nodiscard]] std::size_t rollout_index(Rank rank) const {
        return static_cast<std::size_t>(trainer.world_size()) + static_cast<std::size_t>(rank);
    }

    void check_same_kind(const Parameter& src, const Parameter& dst) const {
        if (src.dtype != dst.dtype)
            throw ConfigError(fmt::format(
                "trainer parameter {} is {} but rollout parameter {} is {}: dtypes must be equal",
                src.name, to_string(src.dtype), dst.name, to_string(dst.dtype)));
        if (src.format != dst.format)
            throw ConfigError(
                fmt::format("trainer parameter {} has format '{}' but rollout parameter "
                            "{} has format '{}': formats must be equal",
                            src.name, src.format, dst.name, dst.format));
    }

    using OwnerKey = std::vector<RankSetId>;
    std::map<OwnerKey, std::uint32_t> owner_ids;
    std::map<std::vector<Rank>, std::uint32_t> group_ids;

    std::uint32_t group_of(std::vector<Rank> ranks) {
        const auto [at, is_new] =
            group_ids.try_emplace(std::move(ranks), static_cast<std::uint32_t>(groups.size()));
        if (is_new) groups.push_back({at->first, 0});
        return at->second;
    }

    std::uint32_t owners_of(const OwnerKey& sets) {
        const auto [at, is_new] =
            owner_ids.try_emplace(sets, static_cast<std::uint32_t>(owners.size()));
        if (!is_new) return at->second;
        Owners made;
        for (const RankSetId set : sets) {
            const auto ranks = trainer.rank_set(set);
            made.ranks.insert(made.ranks.end(), ranks.begin(), ranks.end());
        }
        std::sort(made.ranks.begin(), made.ranks.end());
        made.ranks.erase(std::unique(made.ranks.begin(), made.ranks.end()), made.ranks.end());
        made.everyone = group_of(made.ranks);
        const auto split_by = [&](const std::vector<int>& key, auto& groups_by, bool first_only) {
            if (key.empty()) return;
            std::map<int, std::vector<Rank>> split;
            for (const Rank rank : made.ranks) {
                auto& part = split[key[static_cast<std::size_t>(rank)]];
                if (part.empty() || !first_only) part.push_back(rank);
            }
            for (auto& [value, ranks] : split) groups_by[value] = group_of(std::move(ranks));
        };
        split_by(options.place, made.by_place, true);
        split_by(options.node, made.by_node, false);
        split_by(options.rail, made.by_rail, false);
        owners.push_back(std::move(made));
        return at->second;
    }

    void make_cells() {
        parameter_begin.push_back(0);
        for (ParameterIndex p = 0; p < rollout.parameters().size(); ++p) {
            const Parameter& parameter = rollout.parameter(p);
            for (std::uint32_t i = 0; i < parameter.pieces.size(); ++i) cut_piece(p, i);
            parameter_begin.push_back(narrow<std::uint32_t>(cells.size(), "cells of a plan"));
        }
    }

    void cut_piece(ParameterIndex p, std::uint32_t i) {
        const Parameter& parameter = rollout.parameter(p);
        const Piece& piece = parameter.pieces[i];
        std::vector<PieceRef> overlapping;
        std::vector<std::uint64_t> rows{piece.box.rows.begin, piece.box.rows.end};
        std::vector<std::uint64_t> columns{piece.box.columns.begin, piece.box.columns.end};
        for (const PieceRef ref : trainer.pieces_of(piece.tensor)) {
            const Box common = intersect(source_piece(ref).box, piece.box);
            if (common.empty()) continue;
            check_same_kind(trainer.parameter(ref.parameter), parameter);
            overlapping.push_back(ref);
            rows.insert(rows.end(), {common.rows.begin, common.rows.end});
            columns.insert(columns.end(), {common.columns.begin, common.columns.end});
        }
        const auto sort_unique = [](std::vector<std::uint64_t>& v) {
            std::sort(v.begin(), v.end());
            v.erase(std::unique(v.begin(), v.end()), v.end());
        };
        sort_unique(rows);
        sort_unique(columns);
        for (std::size_t r = 0; r + 1 < rows.size(); ++r)
            for (std::size_t c = 0; c + 1 < columns.size(); ++c)
                add_cell(p, i, {{rows[r], rows[r + 1]}, {columns[c], columns[c + 1]}}, overlapping);
    }

    void add_cell(ParameterIndex p, std::uint32_t i, const Box& box,
                  const std::vector<PieceRef>& overlapping) {
        Cell cell{p, i, box, narrow<std::uint32_t>(sources.size(), "sources of a plan"), 0, 0};
        OwnerKey sets;
        for (const PieceRef ref : overlapping) {
            if (!source_piece(ref).box.contains(box)) continue;
            sources.push_back(ref);
            sets.push_back(trainer.parameter(ref.parameter).ranks);
        }
        const Parameter& parameter = rollout.parameter(p);
        if (sets.empty())
            throw ConfigError(fmt::format("no trainer holds {}, which rollout parameter {} needs",
                                          describe(model.tensor(parameter.pieces[i].tensor), box),
                                          parameter.name));
        cell.sources_end = static_cast<std::uint32_t>(sources.size());
        std::sort(sets.begin(), sets.end());
        sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
        cell.owners = owners_of(sets);
        cells.push_back(cell);
    }

    [[nodiscard]] TensorId tensor_of(const Cell& cell) const {
        return rollout.parameter(cell.parameter).pieces[cell.piece].tensor;
    }

    void index_cells_by_tensor() {
        tensor_begin.assign(model.tensors().size() + 1, 0);
        for (const Cell& cell : cells) ++tensor_begin[tensor_of(cell) + 1];
        for (std::size_t t = 1; t < tensor_begin.size(); ++t)
            tensor_begin[t] += tensor_begin[t - 1];
        tensor_cells.resize(cells.size());
        std::vector<std::uint32_t> next(tensor_begin.begin(), tensor_begin.end() - 1);
        for (std::uint32_t c = 0; c < cells.size(); ++c)
            tensor_cells[next[tensor_of(cells[c])]++] = c;
    }

    /// The group that serves destination `rollout_rank` with cells of these owners.
    [[nodiscard]] std::uint32_t group_for(const Owners& of, Rank rollout_rank) const {
        const auto at = rollout_index(rollout_rank);
        if (!options.place.empty())
            if (const auto found = of.by_place.find(options.place[at]); found != of.by_place.end())
                return found->second;
        if (!options.node.empty())
            if (const auto found = of.by_node.find(options.node[at]); found != of.by_node.end())
                return found->second;
        if (!options.rail.empty())
            if (const auto found = of.by_rail.find(options.rail[at]); found != of.by_rail.end())
                return found->second;
        return of.everyone;
    }

    void share_load() {
        const bool is_uniform =
            options.place.empty() && options.node.empty() && options.rail.empty();
        // Bytes per (owners, destinations) first: there are far fewer of those than of cells.
        std::map<std::pair<std::uint32_t, RankSetId>, double> demand;
        for (const Cell& cell : cells) {
            const Parameter& parameter = rollout.parameter(cell.parameter);
            demand[{cell.owners, parameter.ranks}] +=
                static_cast<double>(cell.box.elements() * element_bytes(parameter.dtype));
        }
        for (const auto& [key, bytes] : demand) {
            const Owners& of = owners[key.first];
            const auto destinations = rollout.rank_set(key.second);
            if (is_uniform) {
                groups[of.everyone].demand += bytes * static_cast<double>(destinations.size());
                continue;
            }
            for (const Rank rank : destinations) {
                // What stays in the process costs no port.
                const std::uint32_t group = group_for(of, rank);
                const auto at = rollout_index(rank);
                const bool is_local =
                    !options.place.empty() && of.by_place.contains(options.place[at]);
                if (!is_local) groups[group].demand += bytes;
            }
        }
        weights = level_shares(groups);
    }

    /// Calls visit(transfer) for each slice of the cell for one destination, or for those that
    /// trainer `only` serves.
    template <class Visit>
    void visit_slices(const Cell& cell, Rank rollout_rank, std::optional<Rank> only,
                      std::vector<Slice>& scratch, Visit&& visit) const {
        const Parameter& parameter = rollout.parameter(cell.parameter);
        const Piece& piece = parameter.pieces[cell.piece];
        const std::uint64_t element = element_bytes(parameter.dtype);
        const std::uint32_t group = group_for(owners[cell.owners], rollout_rank);
        const bool by_columns = cell.box.rows.size() == 1;
        scratch.clear();
        cut_slices(by_columns ? cell.box.columns.size() : cell.box.rows.size(),
                   by_columns ? element : cell.box.columns.size() * element, weights[group],
                   piece.tensor, static_cast<std::uint64_t>(rollout_rank), options.minimum_slice,
                   scratch);
        for (const Slice& slice : scratch) {
            const Rank source = groups[group].holders[slice.holder];
            if (only && source != *only) continue;
            std::uint32_t s = cell.sources_begin;
            while (!trainer.holds(trainer.parameter(sources[s].parameter).ranks, source)) ++s;
            const Box box = part_of(cell.box, slice.begin, slice.end);
            visit(Transfer{
                piece.tensor, box,
                endpoint_in(source_piece(sources[s]), sources[s].parameter, source, box, element),
                endpoint_in(piece, cell.parameter, trainer.world_size() + rollout_rank, box,
                            element),
                box.rows.size(), box.columns.size() * element});
        }
    }
};

Planner::Planner(const ModelSpec& model, const Layout& trainer, const Layout& rollout,
                 PlanOptions options)
    : state_(std::make_unique<const State>(model, trainer, rollout, std::move(options))) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

Rank Planner::trainers() const { return state_->trainer.world_size(); }
Rank Planner::rollouts() const { return state_->rollout.world_size(); }
const ModelSpec& Planner::model() const { return state_->model; }
const Layout& Planner::trainer() const { return state_->trainer; }
const Layout& Planner::rollout() const { return state_->rollout; }

std::vector<Transfer> Planner::received_by(Rank plan_rank) const {
    std::vector<Transfer> transfers;
    if (plan_rank < trainers()) return transfers;
    const State& s = *state_;
    const Rank rank = plan_rank - trainers();
    std::vector<Slice> scratch;
    for (const ParameterIndex p : s.rollout.parameters_of(rank))
        for (std::uint32_t c = s.parameter_begin[p]; c < s.parameter_begin[p + 1]; ++c)
            s.visit_slices(s.cells[c], rank, std::nullopt, scratch,
                           [&](const Transfer& transfer) { transfers.push_back(transfer); });
    return transfers;
}

std::vector<Transfer> Planner::sent_by(Rank plan_rank) const {
    return sent_by(plan_rank, [](ParameterIndex, Rank) { return true; });
}

std::vector<Transfer> Planner::sent_by(Rank plan_rank, const Wanted& wanted) const {
    std::vector<Transfer> transfers;
    if (plan_rank >= trainers()) return transfers;
    const State& s = *state_;
    std::vector<TensorId> tensors;
    for (const ParameterIndex p : s.trainer.parameters_of(plan_rank))
        for (const Piece& piece : s.trainer.parameter(p).pieces) tensors.push_back(piece.tensor);
    std::sort(tensors.begin(), tensors.end());
    tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());

    std::vector<bool> owns;
    for (const Owners& of : s.owners)
        owns.push_back(std::binary_search(of.ranks.begin(), of.ranks.end(), plan_rank));
    std::vector<std::uint32_t> cells;
    for (const TensorId t : tensors)
        for (std::uint32_t i = s.tensor_begin[t]; i < s.tensor_begin[t + 1]; ++i)
            if (owns[s.cells[s.tensor_cells[i]].owners]) cells.push_back(s.tensor_cells[i]);
    std::sort(cells.begin(), cells.end());

    std::vector<Slice> scratch;
    for (const std::uint32_t c : cells)
        for (const Rank rank : s.rollout.rank_set(s.rollout.parameter(s.cells[c].parameter).ranks))
            if (wanted(s.cells[c].parameter, trainers() + rank))
                s.visit_slices(s.cells[c], rank, plan_rank, scratch,
                               [&](const Transfer& transfer) { transfers.push_back(transfer); });
    // Cells were visited in plan order, so a stable sort keeps plan order within a destination.
    std::stable_sort(transfers.begin(), transfers.end(),
                     [](const Transfer& a, const Transfer& b) { return a.dst.rank < b.dst.rank; });
    return transfers;
}

std::uint64_t Planner::digest(std::span<const Transfer> transfers) const {
    const State& s = *state_;
    std::uint64_t sum = 0;
    for (const Transfer& t : transfers) {
        std::uint64_t h = mix(s.model.key(t.tensor), t.box.rows.begin);
        for (const std::uint64_t value : {t.box.rows.end, t.box.columns.begin, t.box.columns.end})
            h = mix(h, value);
        for (const Endpoint* e : {&t.src, &t.dst}) {
            const auto& names = e == &t.src ? s.trainer_names : s.rollout_names;
            h = mix(h, static_cast<std::uint64_t>(e->rank));
            h = mix(h, static_cast<std::uint64_t>(e->buffer));
            h = mix(h, names[e->parameter]);
            h = mix(h, e->offset);
            h = mix(h, e->pitch);
        }
        sum += mix(mix(h, t.rows), t.row_bytes);
    }
    return sum;
}

}  // namespace weightlift::plan
