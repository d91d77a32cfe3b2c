// Which sums of which ranks make up the fingerprint of a tensor.
//
// A *family* is a tensor as one parameter name holds it on one side, in one group of equal engines.
// Its boxes tile the tensor; copy k of it takes holder k (mod their number) of each box. Each copy
// of each family has a slot; a rank adds the sums of its blocks to its slots, slots are summed over
// ranks, and every rollout slot of a tensor must equal the trainers'. A family whose boxes do not
// tile their tensor (possible in layout files) has no slots: its holders compare element by element
// instead.
//
// Example: two key heads over four ranks, each held twice. Boxes: head 0 (held by ranks 0 and 1),
// head 1 (ranks 2 and 3). Copy 0 is ranks 0 and 2, copy 1 ranks 1 and 3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightlift/layout/layout.hpp"
#include "weightlift/record/run_record.hpp"
#include "weightlift/session/weight_store.hpp"

namespace weightlift::session {

class FingerprintTable {
public:
    /// Pure; equal on every rank. References must outlive the table. O(distinct shards).
    FingerprintTable(const model::ModelSpec& model, const layout::Layout& trainer,
                     const layout::Layout& rollout);

    [[nodiscard]] std::size_t slots() const { return slots_; }

    /// Adds the sums of a store's blocks to its slots. `slots` has slots() entries.
    void add(const WeightStore& store, std::span<const std::uint64_t> block_sums,
             std::span<std::uint64_t> slots) const;

    /// Blocks of this store that no slot covers: indices into store.blocks().
    [[nodiscard]] std::vector<std::size_t> uncovered(const WeightStore& store) const;

    /// Compares summed slots: one row per tensor that both sides hold in whole.
    [[nodiscard]] std::vector<record::FingerprintRow> compare(
        std::span<const std::uint64_t> slots) const;

private:
    /// A box and one of the parameters that hold it.
    struct Held {
        Box box;
        layout::ParameterIndex parameter = 0;
        friend auto operator<=>(const Held&, const Held&) = default;
    };
    struct Family {
        layout::Side side = layout::Side::Trainer;
        int engine = 0;  ///< the first one that holds it; tells groups of engines apart
        std::vector<layout::ParameterIndex> parameters;  ///< ascending
        std::vector<Held> held;                          ///< ascending
        std::uint32_t copies = 0;
        std::size_t first_slot = 0;
        bool is_whole = false;
    };
    [[nodiscard]] const Family& family(layout::Side side, model::TensorId tensor,
                                       layout::ParameterIndex parameter) const;
    /// The parameters of a family that hold this box.
    [[nodiscard]] static std::span<const Held> holders_of(const Family& family, const Box& box);
    [[nodiscard]] Rank holder(const Family& family, std::size_t copy) const;
    void count_copies(Family& family, const Box& whole) const;
    [[nodiscard]] const layout::Layout& layout_of(layout::Side side) const;
    void make_families(layout::Side side, model::TensorId tensor);

    const model::ModelSpec& model_;
    const layout::Layout& trainer_;
    const layout::Layout& rollout_;
    std::vector<Family> families_;             ///< by tensor, trainer before rollout
    std::vector<std::uint32_t> first_family_;  ///< tensors + 1
    std::size_t slots_ = 0;
};

}  // namespace weightlift::session
