#include "gather.hpp"

namespace weightlift::plan::steps {

std::optional<Held> find_at(const layout::Layout& trainer, layout::TensorId tensor, const Box& box,
                            Rank rank) {
    for (const layout::PieceRef ref : trainer.pieces_of(tensor)) {
        const layout::Parameter& parameter = trainer.parameter(ref.parameter);
        const layout::Piece& piece = parameter.pieces[ref.piece];
        if (piece.box.contains(box) && trainer.holds(parameter.ranks, rank))
            return Held{rank, ref.parameter, &piece, box};
    }
    return std::nullopt;
}

std::vector<Held> find_holders(const layout::Layout& trainer, layout::TensorId tensor,
                               const Box& box, Rank wanted_by, Rank begin, Rank end) {
    if (const auto all = find_at(trainer, tensor, box, wanted_by)) return {*all};
    struct Candidate {
        Box box;
        Held held;
        int preference = 0;  ///< 0 is best
    };
    std::vector<Candidate> candidates;
    std::vector<std::uint64_t> rows{box.rows.begin, box.rows.end};
    std::vector<std::uint64_t> columns{box.columns.begin, box.columns.end};
    for (const layout::PieceRef ref : trainer.pieces_of(tensor)) {
        const layout::Parameter& parameter = trainer.parameter(ref.parameter);
        const layout::Piece& piece = parameter.pieces[ref.piece];
        const Box common = intersect(piece.box, box);
        if (common.empty()) continue;
        const auto ranks = trainer.rank_set(parameter.ranks);
        const auto near = std::lower_bound(ranks.begin(), ranks.end(), begin);
        const bool is_own = trainer.holds(parameter.ranks, wanted_by);
        const bool is_near = near != ranks.end() && *near < end;
        const Rank holder = is_own ? wanted_by : is_near ? *near : ranks.front();
        candidates.push_back({common,
                              {holder, ref.parameter, &piece, {}},
                              is_own    ? 0
                              : is_near ? 1
                                        : 2});
        rows.insert(rows.end(), {common.rows.begin, common.rows.end});
        columns.insert(columns.end(), {common.columns.begin, common.columns.end});
    }
    for (auto* borders : {&rows, &columns}) {
        std::sort(borders->begin(), borders->end());
        borders->erase(std::unique(borders->begin(), borders->end()), borders->end());
    }
    std::vector<Held> parts;
    for (std::size_t r = 0; r + 1 < rows.size(); ++r)
        for (std::size_t c = 0; c + 1 < columns.size(); ++c) {
            const Box part{{rows[r], rows[r + 1]}, {columns[c], columns[c + 1]}};
            const Candidate* best = nullptr;
            for (const Candidate& candidate : candidates)
                if (candidate.box.contains(part) &&
                    (best == nullptr || candidate.preference < best->preference))
                    best = &candidate;
            if (best == nullptr) continue;
            parts.push_back(best->held);
            parts.back().box = part;
        }
    return parts;
}

}  // namespace weightlift::plan::steps
