#include "weightlift/session/weight_store.hpp"

namespace weightlift::session {

WeightStore::WeightStore(const model::ModelSpec& model, const layout::Layout& layout, Rank rank)
    : layout_(layout), rank_(rank), map_(layout, rank) {
    for (std::size_t i = 0; i < map_.parameters().size(); ++i) {
        const layout::ParameterIndex p = map_.parameters()[i];
        const layout::Parameter& parameter = layout.parameter(p);
        for (std::uint32_t j = 0; j < parameter.pieces.size(); ++j) {
            const layout::Piece& piece = parameter.pieces[j];
            blocks_.push_back({map_.offset_at(i) + piece.offset, piece.pitch, piece.box,
                               parameter.dtype, model.key(piece.tensor)});
            pieces_.push_back({p, j});
        }
        for (const layout::Padding& pad : parameter.padding)
            padding_.push_back(
                {map_.offset_at(i) + pad.offset, pad.pitch, pad.rows, pad.row_bytes});
    }
}

void WeightStore::allocate(memory::MemoryKind kind, const memory::ArenaOptions& options,
                           Bytes staging) {
    arena_ =
        memory::make_arena(kind, checked_add(map_.bytes(), staging, "bytes of a rank"), options);
}

layout::ParameterIndex WeightStore::parameter_at(Bytes offset) const {
    std::size_t i = 0;
    while (i + 1 < map_.parameters().size() && map_.offset_at(i + 1) <= offset) ++i;
    return map_.parameters()[i];
}

}  // namespace weightlift::session
