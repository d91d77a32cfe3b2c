#include "pieces.hpp"

namespace weightlift::plan::steps {

const layout::Piece& PieceFinder::operator()(const Transfer& transfer) {
    const layout::Parameter& parameter = rollout_.parameter(transfer.dst.parameter);
    if (transfer.dst.parameter != parameter_) last_ = 0;
    parameter_ = transfer.dst.parameter;
    const Bytes element = element_bytes(parameter.dtype);
    for (std::size_t tried = 0; tried < parameter.pieces.size(); ++tried) {
        const layout::Piece& piece = parameter.pieces[last_];
        // A tensor may stand in a parameter more than once.
        if (piece.tensor == transfer.tensor && piece.box.contains(transfer.box) &&
            offset_in(piece, transfer.box, element) == transfer.dst.offset)
            return piece;
        last_ = last_ + 1 == parameter.pieces.size() ? 0 : last_ + 1;
    }
    throw Error(ExitCode::Internal, "a transfer goes to no piece of parameter " + parameter.name);
}

}  // namespace weightlift::plan::steps
