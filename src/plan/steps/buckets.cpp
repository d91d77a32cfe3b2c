#include "buckets.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace weightlift::plan::steps {

namespace {

/// Appends the tensor's parts of at most `slot` bytes.
void cut(const model::TensorSpec& spec, layout::TensorId tensor, Bytes slot,
         std::vector<Unit>& units) {
    const Bytes element = element_bytes(spec.dtype);
    const bool by_rows = spec.rows > 1;
    const Bytes unit = by_rows ? spec.columns * element : element;
    const std::uint64_t count = by_rows ? spec.rows : spec.columns;
    const std::uint64_t most = slot / unit;
    if (most == 0)
        throw ConfigError(fmt::format(
            "staging limit: a row of {} has {} bytes, but half of the limit is {}; it must fit",
            spec.name, unit, slot));
    const std::uint64_t parts = ceil_div(count, most);
    for (std::uint64_t i = 0; i < parts; ++i) {
        const Interval part{count * i / parts, count * (i + 1) / parts};
        Box box = spec.box();
        (by_rows ? box.rows : box.columns) = part;
        units.push_back({tensor, box, 0, 0});
    }
}

}  // namespace

Buckets::Buckets(const Planner& planner, const StepOptions& options, std::size_t lanes) {
    fill(planner, options, lanes);
    schedule(lanes);
}

void Buckets::fill(const Planner& planner, const StepOptions& options, std::size_t lanes) {
    const layout::Layout& trainer = planner.trainer();
    const model::ModelSpec& model = planner.model();
    const Rank in_stage = planner.trainers() / options.stages;
    const auto stages = static_cast<std::size_t>(options.stages);
    std::vector<std::vector<layout::TensorId>> tensors(stages);
    for (layout::TensorId id = 0; id < model.tensors().size(); ++id) {
        const auto refs = trainer.pieces_of(id);
        if (refs.empty() || planner.rollout().pieces_of(id).empty()) continue;
        Rank first = planner.trainers();
        for (const layout::PieceRef& ref : refs)
            first = std::min(first, trainer.rank_set(trainer.parameter(ref.parameter).ranks)[0]);
        tensors[static_cast<std::size_t>(first / in_stage)].push_back(id);
    }

    const Bytes slot = most_slot_bytes(options);
    of_tensor_.resize(model.tensors().size());
    std::vector<std::vector<Bucket>> by_stage(stages);
    for (std::size_t stage = 0; stage < stages; ++stage) {
        for (const layout::TensorId id : tensors[stage]) {
            const auto begin = narrow<std::uint32_t>(units_.size(), "units of a broadcast");
            cut(model.tensor(id), id, slot, units_);
            const auto end = narrow<std::uint32_t>(units_.size(), "units of a broadcast");
            of_tensor_[id] = {begin, end};
            for (std::uint32_t u = begin; u < end; ++u) {
                Unit& unit = units_[u];
                const Bytes bytes = unit.box.elements() * element_bytes(model.tensor(id).dtype);
                auto& buckets = by_stage[stage];
                const Bytes used =
                    buckets.empty() ? slot : round_up(buckets.back().bytes, kArenaAlignment);
                if (buckets.empty() || used + bytes > slot)
                    buckets.push_back({static_cast<Rank>(stage),
                                       static_cast<std::uint32_t>(buckets.size()), u, u, 0,
                                       Chunks(0, 1, 1, 0), 0, 0, 0});
                Bucket& bucket = buckets.back();
                unit.offset = round_up(bucket.bytes, kArenaAlignment);
                bucket.bytes = unit.offset + bytes;
                bucket.units_end = u + 1;
            }
        }
    }
    of_stage_.resize(stages);
    for (std::size_t i = 0;; ++i) {
        bool is_done = true;
        for (std::size_t stage = 0; stage < stages; ++stage) {
            if (i >= by_stage[stage].size()) continue;
            is_done = false;
            const auto number = static_cast<std::uint32_t>(buckets_.size());
            Bucket& bucket = by_stage[stage][i];
            bucket.chunks = Chunks(bucket.bytes, lanes, options.chunk, number);
            for (std::uint32_t u = bucket.units_begin; u < bucket.units_end; ++u)
                units_[u].bucket = number;
            of_stage_[stage].push_back(number);
            buckets_.push_back(bucket);
            slot_bytes_ = std::max(slot_bytes_, round_up(bucket.bytes, kArenaAlignment));
        }
        if (is_done) break;
    }
}

/// Let M be the number of lanes, the most members of a group. A chunk of turn c reaches group g at
/// round + c + g and its last member M-1 later; the member cuts out after the last chunk, at
/// round + rounds + g + M - 1, and says in the round after that its slot is free. The bucket that
/// takes the slot next must come to the group after that, whichever group it is.
void Buckets::schedule(std::size_t lanes) {
    const auto m = static_cast<std::uint32_t>(lanes);
    for (std::uint32_t b = 0; b < buckets_.size(); ++b) {
        Bucket& bucket = buckets_[b];
        bucket.rounds = narrow<std::uint32_t>(bucket.chunks.turns(), "rounds of a bucket");
        if (bucket.index_in_stage >= kSlots) {
            // The root's own slot is free when its last chunk has left; it says so one round later.
            const Bucket& before = buckets_[of_stage(bucket.stage)[bucket.index_in_stage - kSlots]];
            bucket.gather_round = before.round + before.rounds + 1;
        }
        bucket.round = bucket.gather_round + 1;
        if (b >= 1)
            bucket.round = std::max(bucket.round, buckets_[b - 1].round + buckets_[b - 1].rounds);
        if (b >= kSlots)
            bucket.round = std::max(
                bucket.round, buckets_[b - kSlots].round + buckets_[b - kSlots].rounds + m + 1);
    }
}

}  // namespace weightlift::plan::steps
