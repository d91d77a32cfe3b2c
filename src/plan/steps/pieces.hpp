// Where elements lie in parameters, and parts of copies.
#pragma once

#include "weightlift/layout/layout.hpp"
#include "weightlift/plan/copy.hpp"

namespace weightlift::plan::steps {

/// Finds the pieces that transfers into a parameter go to; quick where they come in the order of
/// the pieces, as they do in a plan.
class PieceFinder {
public:
    explicit PieceFinder(const layout::Layout& rollout) : rollout_(rollout) {}
    [[nodiscard]] const layout::Piece& operator()(const Transfer& transfer);

private:
    const layout::Layout& rollout_;
    layout::ParameterIndex parameter_ = 0;
    std::size_t last_ = 0;
};

/// Offset of a box's first element from the start of the parameter.
[[nodiscard]] inline Bytes offset_in(const layout::Piece& piece, const Box& box, Bytes element) {
    return piece.offset + (box.rows.begin - piece.box.rows.begin) * piece.pitch +
           (box.columns.begin - piece.box.columns.begin) * element;
}

/// Units in which a piece is cut: rows, or the bytes of a single one.
struct Units {
    bool are_rows = false;
    std::uint64_t count = 0;
    Bytes pitch = 1;  ///< from one to the next

    Units(const layout::Piece& piece, Bytes element)
        : are_rows(piece.box.rows.size() > 1),
          count(are_rows ? piece.box.rows.size() : piece.box.columns.size() * element),
          pitch(are_rows ? piece.pitch : 1) {}
};

/// `count` rows of a copy from row `begin` on.
[[nodiscard]] inline Copy rows_of(Copy copy, std::uint64_t begin, std::uint64_t count) {
    copy.src_offset += begin * copy.src_pitch;
    copy.dst_offset += begin * copy.dst_pitch;
    copy.rows = count;
    return copy;
}

/// `count` bytes of a copy of one row from byte `begin` on.
[[nodiscard]] inline Copy bytes_of(Copy copy, Bytes begin, Bytes count) {
    copy.src_offset += begin;
    copy.dst_offset += begin;
    copy.row_bytes = copy.src_pitch = copy.dst_pitch = count;
    return copy;
}

}  // namespace weightlift::plan::steps
