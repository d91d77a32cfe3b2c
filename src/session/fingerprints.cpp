#include "weightlift/session/fingerprints.hpp"

#include <algorithm>

namespace weightlift::session {

using layout::Layout;
using layout::ParameterIndex;
using layout::Side;
using model::TensorId;

namespace {

/// True where disjoint boxes cover the whole: equal areas and no overlap. Boxes ascend.
bool tiles(const std::vector<Box>& boxes, const Box& whole) {
    std::uint64_t elements = 0;
    for (const Box& box : boxes) elements += box.elements();
    if (elements != whole.elements()) return false;
    for (std::size_t i = 0; i < boxes.size(); ++i)
        for (std::size_t j = i + 1; j < boxes.size() && boxes[j].rows.begin < boxes[i].rows.end;
             ++j)
            if (!intersect(boxes[i], boxes[j]).empty()) return false;
    return true;
}

}  // namespace

FingerprintTable::FingerprintTable(const model::ModelSpec& model, const Layout& trainer,
                                   const Layout& rollout)
    : model_(model), trainer_(trainer), rollout_(rollout) {
    first_family_.push_back(0);
    for (TensorId t = 0; t < model.tensors().size(); ++t) {
        make_families(Side::Trainer, t);
        make_families(Side::Rollout, t);
        first_family_.push_back(static_cast<std::uint32_t>(families_.size()));
    }
}

const Layout& FingerprintTable::layout_of(Side side) const {
    return side == Side::Trainer ? trainer_ : rollout_;
}

void FingerprintTable::make_families(Side side, TensorId tensor) {
    const Layout& layout = layout_of(side);
    const std::size_t begin = families_.size();
    for (const auto ref : layout.pieces_of(tensor)) {
        const auto& parameter = layout.parameter(ref.parameter);
        const int engine = layout.engine_of(layout.rank_set(parameter.ranks).front());
        auto at =
            std::find_if(families_.begin() + static_cast<std::ptrdiff_t>(begin), families_.end(),
                         [&](const Family& f) {
                             return f.engine == engine &&
                                    layout.parameter(f.parameters.front()).name == parameter.name;
                         });
        if (at == families_.end()) {
            families_.push_back({side, engine, {}, {}, 0, 0, false});
            at = families_.end() - 1;
        }
        at->held.push_back({parameter.pieces[ref.piece].box, ref.parameter});
        // Several pieces of one parameter are adjacent in this list.
        if (at->parameters.empty() || at->parameters.back() != ref.parameter)
            at->parameters.push_back(ref.parameter);
    }
    for (std::size_t f = begin; f < families_.size(); ++f) {
        count_copies(families_[f], model_.tensor(tensor).box());
        families_[f].first_slot = slots_;
        if (families_[f].is_whole) slots_ += families_[f].copies;
    }
}

void FingerprintTable::count_copies(Family& family, const Box& whole) const {
    const Layout& layout = layout_of(family.side);
    std::sort(family.held.begin(), family.held.end());
    // A parameter that holds a box twice would have two sums for one copy.
    const bool has_twice =
        std::adjacent_find(family.held.begin(), family.held.end()) != family.held.end();
    std::vector<Box> boxes;
    std::size_t holders = 0;
    for (const Held& held : family.held) {
        if (boxes.empty() || boxes.back() != held.box) {
            boxes.push_back(held.box);
            holders = 0;
        }
        holders += layout.rank_set(layout.parameter(held.parameter).ranks).size();
        family.copies = std::max(family.copies, static_cast<std::uint32_t>(holders));
    }
    family.is_whole = !has_twice && tiles(boxes, whole);
}

const FingerprintTable::Family& FingerprintTable::family(Side side, TensorId tensor,
                                                         ParameterIndex parameter) const {
    for (std::uint32_t f = first_family_[tensor]; f < first_family_[tensor + 1]; ++f) {
        const Family& candidate = families_[f];
        if (candidate.side == side &&
            std::binary_search(candidate.parameters.begin(), candidate.parameters.end(), parameter))
            return candidate;
    }
    fail_invariant("parameter is in a family", std::source_location::current());
}

std::span<const FingerprintTable::Held> FingerprintTable::holders_of(const Family& family,
                                                                     const Box& box) {
    const auto begin = std::lower_bound(family.held.begin(), family.held.end(), Held{box, 0});
    auto end = begin;
    while (end != family.held.end() && end->box == box) ++end;
    return {begin, end};
}

/// One of the ranks that copy `copy` is made of.
Rank FingerprintTable::holder(const Family& family, std::size_t copy) const {
    const Layout& layout = layout_of(family.side);
    std::vector<Rank> ranks;
    for (const Held& held : holders_of(family, family.held.front().box)) {
        const auto more = layout.rank_set(layout.parameter(held.parameter).ranks);
        ranks.insert(ranks.end(), more.begin(), more.end());
    }
    return ranks[copy % ranks.size()];
}

void FingerprintTable::add(const WeightStore& store, std::span<const std::uint64_t> block_sums,
                           std::span<std::uint64_t> slots) const {
    const Layout& layout = store.layout();
    for (std::size_t b = 0; b < block_sums.size(); ++b) {
        const auto ref = store.block_pieces()[b];
        const auto& piece = layout.parameter(ref.parameter).pieces[ref.piece];
        const Family& of = family(layout.side(), piece.tensor, ref.parameter);
        if (!of.is_whole) continue;
        std::size_t holders = 0, mine = 0;
        for (const Held& held : holders_of(of, piece.box)) {
            const auto ranks = layout.rank_set(layout.parameter(held.parameter).ranks);
            if (held.parameter == ref.parameter)
                mine = holders + static_cast<std::size_t>(
                                     std::lower_bound(ranks.begin(), ranks.end(), store.rank()) -
                                     ranks.begin());
            holders += ranks.size();
        }
        for (std::size_t copy = mine; copy < of.copies; copy += holders)
            slots[of.first_slot + copy] += block_sums[b];
    }
}

std::vector<std::size_t> FingerprintTable::uncovered(const WeightStore& store) const {
    const Layout& layout = store.layout();
    std::vector<std::size_t> blocks;
    for (std::size_t b = 0; b < store.blocks().size(); ++b) {
        const auto ref = store.block_pieces()[b];
        const TensorId tensor = layout.parameter(ref.parameter).pieces[ref.piece].tensor;
        bool has_reference = false;
        for (std::uint32_t f = first_family_[tensor]; f < first_family_[tensor + 1]; ++f)
            has_reference |= families_[f].side == Side::Trainer && families_[f].is_whole;
        if (!has_reference || !family(layout.side(), tensor, ref.parameter).is_whole)
            blocks.push_back(b);
    }
    return blocks;
}

std::vector<record::FingerprintRow> FingerprintTable::compare(
    std::span<const std::uint64_t> slots) const {
    std::vector<record::FingerprintRow> rows;
    for (TensorId t = 0; t + 1 < first_family_.size(); ++t) {
        const Family* reference = nullptr;
        record::FingerprintRow row;
        bool is_held = false;
        for (std::uint32_t f = first_family_[t]; f < first_family_[t + 1]; ++f) {
            const Family& family = families_[f];
            if (!family.is_whole) continue;
            if (reference == nullptr) {
                if (family.side != Side::Trainer) break;
                reference = &family;
                row.trainer = row.rollout = slots[family.first_slot];
                row.equal = true;
            }
            is_held |= family.side == Side::Rollout;
            for (std::uint32_t copy = 0; copy < family.copies; ++copy) {
                const std::uint64_t value = slots[family.first_slot + copy];
                if (!row.equal || value == row.trainer) continue;
                row.equal = false;
                row.rollout = value;
                if (family.side == Side::Rollout)
                    row.engine = rollout_.engine_of(holder(family, copy));
            }
        }
        if (!is_held) continue;
        row.tensor = model_.tensor(t).name;
        rows.push_back(std::move(row));
    }
    return rows;
}

}  // namespace weightlift::session
