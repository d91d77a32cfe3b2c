// WeightStore: one rank's memory, shaped by its layout: an arena, where each parameter lies in it,
// and the blocks (pieces of logical tensors) and padding that it is made of.
#pragma once

#include <memory>
#include <vector>

#include "weightlift/layout/layout.hpp"
#include "weightlift/memory/registry.hpp"
#include "weightlift/plan/copy.hpp"

namespace weightlift::session {

class WeightStore {
public:
    /// Allocates nothing. References must outlive the store.
    WeightStore(const model::ModelSpec& model, const layout::Layout& layout, Rank rank);

    /// Reserves and zeroes the arena: the weights, and `staging` bytes after them. ConfigError
    /// where the machine has not that much.
    void allocate(memory::MemoryKind kind = memory::MemoryKind::Host,
                  const memory::ArenaOptions& options = {}, Bytes staging = 0);

    [[nodiscard]] const plan::ArenaMap& map() const { return map_; }
    /// Of the weights.
    [[nodiscard]] Bytes bytes() const { return map_.bytes(); }
    [[nodiscard]] memory::Arena& arena() { return *arena_; }
    [[nodiscard]] const memory::Arena& arena() const { return *arena_; }
    [[nodiscard]] const layout::Layout& layout() const { return layout_; }
    [[nodiscard]] Rank rank() const { return rank_; }

    /// One per piece, by parameter in arena order.
    [[nodiscard]] const std::vector<memory::Block>& blocks() const { return blocks_; }
    /// Which parameter and piece block i is.
    [[nodiscard]] const std::vector<layout::PieceRef>& block_pieces() const { return pieces_; }
    [[nodiscard]] const std::vector<memory::ByteBlock>& padding() const { return padding_; }
    /// The parameter that an arena offset belongs to; the last one for offsets in alignment gaps.
    [[nodiscard]] layout::ParameterIndex parameter_at(Bytes offset) const;

private:
    const layout::Layout& layout_;
    Rank rank_;
    plan::ArenaMap map_;
    std::unique_ptr<memory::Arena> arena_;
    std::vector<memory::Block> blocks_;
    std::vector<layout::PieceRef> pieces_;
    std::vector<memory::ByteBlock> padding_;
};

}  // namespace weightlift::session
