// replica: in each pipeline stage a source gathers a copy of a target's shard, as far as the stage
// holds it, in its staging, bucket of whole parameters by bucket, and writes it to all targets that
// it serves with this shard.
//
// With k counting a source's buckets and two slots of staging:
//   round 2k - 1   what left the slot is placed, and those who give to bucket k are told so
//   round 2k       they write into the slot; what the source has itself it copies there
//   round 2k + 2   the bucket is written to the targets
#include <array>
#include <map>
#include <optional>

#include "gather.hpp"
#include "part_builder.hpp"
#include "pieces.hpp"
#include "shards.hpp"
#include "slots.hpp"
#include "strategy_plan.hpp"

namespace weightlift::plan::steps {

namespace {

using layout::ParameterIndex;
using layout::Piece;

constexpr std::string_view kSteps[] = {"gather", "write"};
enum Step : std::uint32_t { kGather, kWrite };

Key gather_key(std::uint32_t turn) { return {2 * turn, 0, turn}; }
Key credit_key(std::uint32_t turn) { return {2 * turn - 1, 0, turn}; }

/// Cuts copies that are executed after each other into runs of about `chunk` bytes.
std::vector<std::vector<Copy>> cut_into_runs(const std::vector<Copy>& copies, Bytes chunk) {
    const Bytes most = std::max(chunk / kArenaAlignment * kArenaAlignment, kArenaAlignment);
    std::vector<std::vector<Copy>> runs;
    Bytes used = most;
    for (const Copy& copy : copies) {
        const Bytes unit = copy.rows == 1 ? 1 : copy.row_bytes;
        const std::uint64_t count = copy.rows == 1 ? copy.row_bytes : copy.rows;
        for (std::uint64_t begin = 0; begin < count;) {
            if (used >= most) {
                runs.emplace_back();
                used = 0;
            }
            // Bytes are cut at multiples of the alignment, so that no element is.
            std::uint64_t take = std::max<std::uint64_t>(1, (most - used) / unit);
            if (copy.rows == 1) take = round_up(take, kArenaAlignment);
            take = std::min(take, count - begin);
            runs.back().push_back(copy.rows == 1 ? bytes_of(copy, begin, take)
                                                 : rows_of(copy, begin, take));
            used += take * unit;
            begin += take;
        }
    }
    return runs;
}

class Replica final : public StrategyPlan {
public:
    Replica(const Planner& planner, const StepOptions& options)
        : planner_(planner),
          options_(options),
          trainers_(planner.trainer()),
          rollouts_(planner.rollout()),
          shards_(planner, options, rollouts_) {}

    [[nodiscard]] std::span<const std::string_view> steps() const override { return kSteps; }

    [[nodiscard]] StepPart part_of(Rank plan_rank) const override {
        PartBuilder builder(plan_rank);
        Arenas arenas(planner_, trainers_, rollouts_);
        Bytes staging = 0;
        if (plan_rank < planner_.trainers()) {
            give(plan_rank, arenas, builder);
            const auto source = static_cast<std::uint32_t>(plan_rank % in_stage());
            std::array<std::vector<PartBuilder::Handle>, kSlots> readers;
            for (const std::uint32_t shard : shards_.of_source(source))
                staging = std::max(staging, serve(plan_rank, shard, arenas, readers, builder));
        } else {
            take(plan_rank, arenas, builder);
        }
        return std::move(builder).finish(staging);
    }

private:
    [[nodiscard]] Rank in_stage() const { return planner_.trainers() / options_.stages; }
    [[nodiscard]] Rank stage_of(Rank trainer) const { return trainer / in_stage(); }
    [[nodiscard]] Rank source_of(std::uint32_t shard, Rank stage) const {
        return stage * in_stage() + static_cast<Rank>(shards_.all()[shard].source);
    }

    /// A source begins with the target at its place among all.
    [[nodiscard]] Key write_key(std::uint32_t turn, std::size_t run, Rank source,
                                Rank target) const {
        const auto n = static_cast<std::uint64_t>(planner_.rollouts());
        const auto first = first_destination(static_cast<std::uint64_t>(source % in_stage()),
                                             static_cast<std::uint64_t>(in_stage()), n);
        const auto index = static_cast<std::uint64_t>(target - planner_.trainers());
        return {2 * turn + 2, static_cast<std::uint32_t>(run), (index + n - first) % n};
    }

    /// Offset of a parameter's copy in the source's arena.
    [[nodiscard]] Bytes staged_at(std::uint32_t shard, Rank stage, const Shelf::Place& place,
                                  Arenas& arenas) const {
        return arenas[source_of(shard, stage)].bytes() +
               shards_.slot_begin(stage, shards_.first_turn(stage, shard) + place.bucket) +
               place.offset;
    }

    /// From where a trainer has it to the source's staging.
    [[nodiscard]] Copy gather_copy(const Transfer& t, std::uint32_t shard, Rank stage,
                                   const Shelf::Place& place, Bytes src_offset, Bytes src_pitch,
                                   Arenas& arenas) const {
        return {0,           src_offset,
                src_pitch,   staged_at(shard, stage, place, arenas) + t.dst.offset,
                t.dst.pitch, t.rows,
                t.row_bytes};
    }

    /// What a trainer gives to the sources of its stage other than itself.
    void give(Rank self, Arenas& arenas, PartBuilder& builder) const {
        const Rank stage = stage_of(self);
        const auto is_first = [&](ParameterIndex, Rank target) {
            const std::uint32_t shard = shards_.of_target(target);
            return shards_.all()[shard].targets.front() == target &&
                   source_of(shard, stage) != self;
        };
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Copy>> by_bucket;
        const ArenaMap& own = arenas[self];
        for (const Transfer& t : planner_.sent_by(self, is_first)) {
            const std::uint32_t shard = shards_.of_target(t.dst.rank);
            if (find_at(planner_.trainer(), t.tensor, t.box, source_of(shard, stage))) continue;
            const Shelf::Place& place = shards_.shelf(stage, shard).of(t.dst.parameter);
            append_copy(
                by_bucket[{shard, place.bucket}],
                gather_copy(t, shard, stage, place, own.offset_of(t.src.parameter) + t.src.offset,
                            t.src.pitch, arenas));
        }
        for (auto& [of, copies] : by_bucket) {
            const auto [shard, bucket] = of;
            const Rank source = source_of(shard, stage);
            const std::uint32_t turn = shards_.first_turn(stage, shard) + bucket;
            const auto sent = builder.send(source, kGather, gather_key(turn), std::move(copies));
            if (turn < kSlots) continue;
            builder.receive(source, kGather, credit_key(turn), {});
            builder.wait_for(sent, source, credit_key(turn));
        }
    }

    /// By bucket of a shard, what its source writes to any of its targets: whole pieces where the
    /// stage gives them whole, in runs as long as can be. `transfers`: of the stage, in plan order.
    [[nodiscard]] std::map<std::uint32_t, std::vector<Copy>> write_copies(
        std::uint32_t shard, Rank stage, std::span<const Transfer> transfers,
        Arenas& arenas) const {
        const Shelf& shelf = shards_.shelf(stage, shard);
        const ArenaMap& target = arenas[shards_.all()[shard].targets.front()];
        PieceFinder find_piece(planner_.rollout());
        std::map<std::uint32_t, std::vector<Copy>> by_bucket;
        for (std::size_t begin = 0, end = 0; begin < transfers.size(); begin = end) {
            const ParameterIndex p = transfers[begin].dst.parameter;
            const Piece& piece = find_piece(transfers[begin]);
            Bytes bytes = 0;
            for (; end < transfers.size() && transfers[end].dst.parameter == p &&
                   &find_piece(transfers[end]) == &piece;
                 ++end)
                bytes += transfers[end].bytes();
            const Shelf::Place& place = shelf.of(p);
            const Bytes src = staged_at(shard, stage, place, arenas), dst = target.offset_of(p);
            auto& copies = by_bucket[place.bucket];
            const auto add = [&](Bytes offset, Bytes pitch, std::uint64_t rows, Bytes row_bytes) {
                append_copy(copies, {0, src + offset, pitch, dst + offset, pitch, rows, row_bytes});
            };
            const Bytes row =
                piece.box.columns.size() * element_bytes(planner_.rollout().parameter(p).dtype);
            if (bytes == piece.box.rows.size() * row)
                add(piece.offset, piece.pitch, piece.box.rows.size(), row);
            else
                for (const Transfer& t : transfers.subspan(begin, end - begin))
                    add(t.dst.offset, t.dst.pitch, t.rows, t.row_bytes);
        }
        return by_bucket;
    }

    [[nodiscard]] std::vector<Transfer> transfers_of(std::uint32_t shard, Rank stage) const {
        auto transfers = planner_.received_by(shards_.all()[shard].targets.front());
        std::erase_if(transfers, [&](const Transfer& t) { return stage_of(t.src.rank) != stage; });
        return transfers;
    }

    /// Gathers a shard and writes it to its targets. `readers`: by slot, what reads it. Returns the
    /// bytes of staging.
    Bytes serve(Rank self, std::uint32_t shard, Arenas& arenas,
                std::array<std::vector<PartBuilder::Handle>, kSlots>& readers,
                PartBuilder& builder) const {
        const Rank stage = stage_of(self);
        const auto transfers = transfers_of(shard, stage);
        const Shelf& shelf = shards_.shelf(stage, shard);
        std::map<std::uint32_t, std::map<Rank, std::vector<Copy>>> gathered;
        for (const Transfer& t : transfers) {
            const Shelf::Place& place = shelf.of(t.dst.parameter);
            const auto held = find_at(planner_.trainer(), t.tensor, t.box, self);
            const Bytes element = element_bytes(planner_.model().tensor(t.tensor).dtype);
            append_copy(
                gathered[place.bucket][held ? self : t.src.rank],
                held ? gather_copy(t, shard, stage, place,
                                   arenas[self].offset_of(held->parameter) +
                                       offset_in(*held->piece, t.box, element),
                                   held->piece->pitch, arenas)
                     : gather_copy(t, shard, stage, place,
                                   arenas[t.src.rank].offset_of(t.src.parameter) + t.src.offset,
                                   t.src.pitch, arenas));
        }
        Bytes staging = 0;
        for (auto& [bucket, copies] : write_copies(shard, stage, transfers, arenas)) {
            const std::uint32_t turn = shards_.first_turn(stage, shard) + bucket;
            staging =
                std::max(staging, shards_.slot_begin(stage, turn) + shelf.bucket_bytes[bucket]);
            auto& slot_readers = readers[turn % kSlots];
            std::optional<PartBuilder::Handle> own;
            for (auto& [holder, given] : gathered[bucket]) {
                std::optional<PartBuilder::Handle> waiting;
                if (holder == self) {
                    waiting = own = builder.send(self, kGather, gather_key(turn), std::move(given));
                } else {
                    builder.receive(holder, kGather, gather_key(turn), std::move(given));
                    if (turn >= kSlots)
                        waiting = builder.send(holder, kGather, credit_key(turn), {});
                }
                if (waiting)
                    for (const auto reader : slot_readers) builder.wait_for_own(*waiting, reader);
            }
            slot_readers.clear();
            const auto runs = cut_into_runs(copies, options_.chunk);
            for (const Rank target : shards_.all()[shard].targets)
                for (std::size_t run = 0; run < runs.size(); ++run) {
                    const auto sent =
                        builder.send(target, kWrite, write_key(turn, run, self, target), runs[run]);
                    slot_readers.push_back(sent);
                    if (own) builder.wait_for_own(sent, *own);
                    for (const auto& [holder, given] : gathered[bucket])
                        if (holder != self) builder.wait_for(sent, holder, gather_key(turn));
                }
        }
        return staging;
    }

    /// What a rollout rank is given by each stage.
    void take(Rank self, Arenas& arenas, PartBuilder& builder) const {
        const std::uint32_t shard = shards_.of_target(self);
        const auto all = planner_.received_by(shards_.all()[shard].targets.front());
        for (Rank stage = 0; stage < static_cast<Rank>(options_.stages); ++stage) {
            std::vector<Transfer> transfers;
            for (const Transfer& t : all)
                if (stage_of(t.src.rank) == stage) transfers.push_back(t);
            const Rank source = source_of(shard, stage);
            for (auto& [bucket, copies] : write_copies(shard, stage, transfers, arenas)) {
                const std::uint32_t turn = shards_.first_turn(stage, shard) + bucket;
                auto runs = cut_into_runs(copies, options_.chunk);
                for (std::size_t run = 0; run < runs.size(); ++run)
                    builder.receive(source, kWrite, write_key(turn, run, source, self),
                                    std::move(runs[run]));
            }
        }
    }

    const Planner& planner_;
    StepOptions options_;
    RankKinds trainers_, rollouts_;
    Shards shards_;
};

}  // namespace

std::unique_ptr<const StrategyPlan> make_replica(const Planner& planner,
                                                 const StepOptions& options) {
    return std::make_unique<const Replica>(planner, options);
}

}  // namespace weightlift::plan::steps
