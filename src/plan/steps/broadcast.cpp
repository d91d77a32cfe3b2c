// broadcast: the first rank of each trainer stage (its root) gathers full tensors into its staging,
// bucket by bucket; each bucket goes down a chain of nodes into the staging of all rollout ranks,
// spread over the members of a node and passed round among them; each cuts out what it needs.
//
//   root -> members of group 0 -> members of group 1 -> ...     chunk by chunk, over the lanes
//           and round group 0     and round group 1
//
// Where roots fan out they send each bucket to every rollout rank in one round, and nobody passes
// anything on.
//
// A slot of staging is written to again when all that read it have been placed: its reader says so
// to each of the next bucket's writers in a segment without copies.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "weightlift/plan/groups.hpp"

#include "arenas.hpp"
#include "buckets.hpp"
#include "gather.hpp"
#include "part_builder.hpp"
#include "pieces.hpp"
#include "strategy_plan.hpp"

namespace weightlift::plan::steps {

namespace {

using layout::Parameter;
using layout::ParameterIndex;
using layout::Piece;
using layout::TensorId;

constexpr std::string_view kSteps[] = {"gather", "broadcast", "cut out"};
enum Step : std::uint32_t { kGather, kBroadcast, kCutOut };
/// Order within a round, and what keeps keys of one pair apart.
enum Order : std::uint32_t { kChunk, kWhole, kCredit };

std::vector<Rank> all_rollouts(const Planner& planner) {
    std::vector<Rank> ranks(static_cast<std::size_t>(planner.rollouts()));
    std::iota(ranks.begin(), ranks.end(), planner.trainers());
    return ranks;
}

/// Whole buckets are one chunk where roots fan out, and nodes do not matter.
StepOptions adapted(StepOptions options) {
    if (options.fans_out) {
        options.chunk = std::max(options.chunk, most_slot_bytes(options));
        options.node.clear();
    }
    return options;
}

class Broadcast final : public StrategyPlan {
public:
    Broadcast(const Planner& planner, const StepOptions& options)
        : planner_(planner),
          options_(adapted(options)),
          trainers_(planner.trainer()),
          rollouts_(planner.rollout()),
          all_(all_rollouts(planner)),
          groups_(all_, options_.node),
          buckets_(planner, options_, groups_.lanes()) {}

    [[nodiscard]] std::span<const std::string_view> steps() const override { return kSteps; }

    [[nodiscard]] StepPart part_of(Rank plan_rank) const override {
        PartBuilder builder(plan_rank);
        Arenas arenas(planner_, trainers_, rollouts_);
        Bytes staging = 0;
        if (plan_rank >= planner_.trainers()) {
            staging = pass_on(plan_rank, arenas, builder);
        } else {
            give(plan_rank, arenas, builder);
            const Rank stage = plan_rank / in_stage();
            if (plan_rank == root_of(stage)) staging = send_stage(stage, arenas, builder);
        }
        return std::move(builder).finish(staging);
    }

private:
    [[nodiscard]] Rank in_stage() const { return planner_.trainers() / options_.stages; }
    [[nodiscard]] Rank root_of(Rank stage) const { return stage * in_stage(); }
    [[nodiscard]] Bytes slot_begin(std::uint32_t turn) const {
        return turn % kSlots * buckets_.slot_bytes();
    }
    /// Offsets of a bucket in the staging of its root, and of a rollout rank.
    [[nodiscard]] Bytes at_root(const Bucket& bucket) const {
        return slot_begin(bucket.index_in_stage);
    }
    [[nodiscard]] Bytes at_rollout(std::uint32_t bucket) const { return slot_begin(bucket); }
    /// The bucket that had the root's slot before.
    [[nodiscard]] const Bucket& before_at_root(const Bucket& bucket) const {
        return buckets_.all()[number_before_at_root(bucket)];
    }
    [[nodiscard]] std::uint32_t number_before_at_root(const Bucket& bucket) const {
        return buckets_.of_stage(bucket.stage)[bucket.index_in_stage - kSlots];
    }

    // Keys, as both ends work them out; rounds as in Buckets::schedule.
    [[nodiscard]] static Key gather_key(const Bucket& bucket, std::uint32_t number) {
        return {bucket.gather_round, kWhole, number};
    }
    [[nodiscard]] Key gather_credit(const Bucket& bucket, std::uint32_t number) const {
        const Bucket& before = before_at_root(bucket);
        return {before.round + before.rounds, kCredit, number};
    }
    [[nodiscard]] static Key chunk_key(const Bucket& bucket, std::uint32_t number,
                                       std::uint64_t chunk, std::size_t hops) {
        return {bucket.round +
                    static_cast<std::uint32_t>(bucket.chunks.turn(chunk) + std::uint64_t{hops}),
                kChunk, (std::uint64_t{number} << 32) | chunk};
    }
    [[nodiscard]] std::uint32_t cut_round(const Bucket& bucket, std::size_t group) const {
        return bucket.round + bucket.rounds +
               static_cast<std::uint32_t>(group + groups_.lanes() - 1);
    }
    /// From a rank of a group: that it is ready for bucket `number`.
    [[nodiscard]] Key credit_key(std::uint32_t number, std::size_t group) const {
        return {cut_round(buckets_.all()[number - kSlots], group) + 1, kCredit, number};
    }

    [[nodiscard]] static Copy chunk_copy(const Bucket& bucket, std::uint64_t chunk, Bytes src,
                                         Bytes dst) {
        const Bytes begin = bucket.chunks.begin(chunk);
        const Bytes bytes = bucket.chunks.begin(chunk + 1) - begin;
        return {0, src + begin, bytes, dst + begin, bytes, 1, bytes};
    }
    [[nodiscard]] static bool is_empty(const Bucket& bucket, std::uint64_t chunk) {
        return bucket.chunks.begin(chunk) == bucket.chunks.begin(chunk + 1);
    }

    [[nodiscard]] std::vector<Held> holders_of(const Unit& unit) const {
        const Rank root = root_of(buckets_.all()[unit.bucket].stage);
        return find_holders(planner_.trainer(), unit.tensor, unit.box, root, root,
                            root + in_stage());
    }
    /// From where a holder has it to the root's staging.
    [[nodiscard]] Copy gather_copy(const Unit& unit, const Held& held, Arenas& arenas) const {
        const Bucket& bucket = buckets_.all()[unit.bucket];
        const Bytes element = element_bytes(planner_.model().tensor(unit.tensor).dtype);
        const Bytes pitch = unit.box.columns.size() * element;
        return {0,
                arenas[held.holder].offset_of(held.parameter) +
                    offset_in(*held.piece, held.box, element),
                held.piece->pitch,
                arenas[root_of(bucket.stage)].bytes() + at_root(bucket) + unit.offset +
                    (held.box.rows.begin - unit.box.rows.begin) * pitch +
                    (held.box.columns.begin - unit.box.columns.begin) * element,
                pitch,
                held.box.rows.size(),
                held.box.columns.size() * element};
    }

    /// What a trainer gives to roots other than itself.
    void give(Rank self, Arenas& arenas, PartBuilder& builder) const {
        std::set<TensorId> tensors;
        for (const ParameterIndex p : arenas[self].parameters())
            for (const Piece& piece : planner_.trainer().parameter(p).pieces)
                tensors.insert(piece.tensor);
        std::map<std::uint32_t, std::vector<Copy>> by_bucket;
        for (const TensorId tensor : tensors)
            for (const Unit& unit : buckets_.units_of(tensor)) {
                if (root_of(buckets_.all()[unit.bucket].stage) == self) continue;
                for (const Held& held : holders_of(unit))
                    if (held.holder == self)
                        append_copy(by_bucket[unit.bucket], gather_copy(unit, held, arenas));
            }
        for (auto& [number, copies] : by_bucket) {
            const Bucket& bucket = buckets_.all()[number];
            const Rank root = root_of(bucket.stage);
            const auto sent =
                builder.send(root, kGather, gather_key(bucket, number), std::move(copies));
            if (bucket.index_in_stage < kSlots) continue;
            builder.receive(root, kGather, gather_credit(bucket, number), {});
            builder.wait_for(sent, root, gather_credit(bucket, number));
        }
    }

    /// What a root gathers and sends. Returns the bytes of its staging.
    Bytes send_stage(Rank stage, Arenas& arenas, PartBuilder& builder) const {
        const Rank root = root_of(stage);
        Bytes staging = 0;
        std::map<std::uint32_t, std::vector<PartBuilder::Handle>> readers;
        for (const std::uint32_t number : buckets_.of_stage(stage)) {
            const Bucket& bucket = buckets_.all()[number];
            staging = std::max(staging, at_root(bucket) + bucket.bytes);
            std::map<Rank, std::vector<Copy>> by_holder;
            for (const Unit& unit : buckets_.units_in(bucket))
                for (const Held& held : holders_of(unit))
                    append_copy(by_holder[held.holder], gather_copy(unit, held, arenas));

            std::vector<PartBuilder::Handle> own;
            for (auto& [holder, copies] : by_holder) {
                const Key key = gather_key(bucket, number);
                std::vector<PartBuilder::Handle> writes;
                if (holder == root) {
                    own.push_back(builder.send(root, kGather, key, std::move(copies)));
                    writes.push_back(own.back());
                } else {
                    builder.receive(holder, kGather, key, std::move(copies));
                    if (bucket.index_in_stage >= kSlots)
                        writes.push_back(
                            builder.send(holder, kGather, gather_credit(bucket, number), {}));
                }
                if (bucket.index_in_stage >= kSlots)
                    for (const auto sent : writes)
                        for (const auto reader : readers[number_before_at_root(bucket)])
                            builder.wait_for_own(sent, reader);
            }
            std::set<Rank> ready;
            const auto send = [&](std::uint64_t chunk, Rank next) {
                const auto sent =
                    builder.send(next, kBroadcast, chunk_key(bucket, number, chunk, 0),
                                 {chunk_copy(bucket, chunk, arenas[root].bytes() + at_root(bucket),
                                             arenas[next].bytes() + at_rollout(number))});
                readers[number].push_back(sent);
                for (const auto& [holder, copies] : by_holder)
                    if (holder != root) builder.wait_for(sent, holder, gather_key(bucket, number));
                for (const auto copied : own) builder.wait_for_own(sent, copied);
                wait_for_credit(sent, next, number, 0, ready, builder);
            };
            for (std::uint64_t chunk = 0; chunk < bucket.chunks.count(); ++chunk) {
                if (is_empty(bucket, chunk)) continue;
                if (options_.fans_out)
                    for (const Rank rollout : all_) send(chunk, rollout);
                else
                    send(chunk, groups_.of_lane(0, bucket.chunks.seat(chunk)));
            }
        }
        return staging;
    }

    /// A segment of a bucket waits until its destination has a slot for it; `ready`: destinations
    /// whose word for this bucket is expected already.
    void wait_for_credit(PartBuilder::Handle sent, Rank destination, std::uint32_t number,
                         std::size_t group, std::set<Rank>& ready, PartBuilder& builder) const {
        if (number < kSlots) return;
        const Key key = credit_key(number, group);
        if (ready.insert(destination).second) builder.receive(destination, kBroadcast, key, {});
        builder.wait_for(sent, destination, key);
    }

    /// Box copies of a rollout rank out of its staging, by bucket.
    [[nodiscard]] std::map<std::uint32_t, std::vector<Copy>> cut_outs(const ArenaMap& own) const {
        std::map<std::uint32_t, std::vector<Copy>> by_bucket;
        for (std::size_t i = 0; i < own.parameters().size(); ++i) {
            const Parameter& parameter = planner_.rollout().parameter(own.parameters()[i]);
            const Bytes element = element_bytes(parameter.dtype);
            for (const Piece& piece : parameter.pieces)
                for (const Unit& unit : buckets_.units_of(piece.tensor)) {
                    const Box box = intersect(unit.box, piece.box);
                    if (box.empty()) continue;
                    const Bytes pitch = unit.box.columns.size() * element;
                    append_copy(by_bucket[unit.bucket],
                                {0,
                                 own.bytes() + at_rollout(unit.bucket) + unit.offset +
                                     (box.rows.begin - unit.box.rows.begin) * pitch +
                                     (box.columns.begin - unit.box.columns.begin) * element,
                                 pitch, own.offset_at(i) + offset_in(piece, box, element),
                                 piece.pitch, box.rows.size(), box.columns.size() * element});
                }
        }
        return by_bucket;
    }

    /// What a rollout rank takes in, passes on and cuts out. Returns the bytes of its staging.
    Bytes pass_on(Rank self, Arenas& arenas, PartBuilder& builder) const {
        const ArenaMap& own = arenas[self];
        Groups::Seat seat = groups_.seat_of(self);
        const std::size_t groups = options_.fans_out ? 1 : groups_.size();
        if (options_.fans_out) seat.group = 0;  // all are next to the root
        const auto& members = groups_.members(seat.group);
        const Rank next_member = members[(seat.member + 1) % members.size()];
        const Rank member_before = members[(seat.member + members.size() - 1) % members.size()];
        auto cuts = cut_outs(own);
        Bytes staging = 0;
        struct Use {
            std::map<Rank, Key> arrivals;  ///< the last from each source
            std::vector<PartBuilder::Handle> readers;
        };
        std::vector<Use> uses(buckets_.all().size());
        for (std::uint32_t number = 0; number < buckets_.all().size(); ++number) {
            const Bucket& bucket = buckets_.all()[number];
            Use& use = uses[number];
            const Bytes here = own.bytes() + at_rollout(number);
            staging = std::max(staging, at_rollout(number) + bucket.bytes);
            std::set<Rank> ready;
            for (std::uint64_t chunk = 0; chunk < bucket.chunks.count(); ++chunk) {
                if (is_empty(bucket, chunk)) continue;
                const auto lane = bucket.chunks.seat(chunk);
                const auto fan =
                    (seat.member + members.size() - groups_.member_of_lane(seat.group, lane)) %
                    members.size();
                const Rank before = fan > 0          ? member_before
                                    : seat.group > 0 ? groups_.of_lane(seat.group - 1, lane)
                                                     : root_of(bucket.stage);
                const bool is_from_root = before < planner_.trainers();
                const Key arrival = chunk_key(bucket, number, chunk, seat.group + fan);
                const Bytes there =
                    arenas[before].bytes() + (is_from_root ? at_root(bucket) : at_rollout(number));
                builder.receive(before, kBroadcast, arrival,
                                {chunk_copy(bucket, chunk, there, here)});
                Key& last = use.arrivals.try_emplace(before, arrival).first->second;
                last = std::max(last, arrival);
                const auto pass = [&](Rank next, std::size_t group) {
                    const auto sent = builder.send(
                        next, kBroadcast, chunk_key(bucket, number, chunk, seat.group + fan + 1),
                        {chunk_copy(bucket, chunk, here,
                                    arenas[next].bytes() + at_rollout(number))});
                    use.readers.push_back(sent);
                    builder.wait_for(sent, before, arrival);
                    wait_for_credit(sent, next, number, group, ready, builder);
                };
                if (fan == 0 && seat.group + 1 < groups)
                    pass(groups_.of_lane(seat.group + 1, lane), seat.group + 1);
                if (fan + 1 < members.size()) pass(next_member, seat.group);
            }
            if (const auto cut = cuts.find(number); cut != cuts.end()) {
                const auto sent =
                    builder.send(self, kCutOut, {cut_round(bucket, seat.group), kWhole, number},
                                 std::move(cut->second));
                for (const auto& [source, key] : use.arrivals) builder.wait_for(sent, source, key);
                use.readers.push_back(sent);
            }
            if (number < kSlots) continue;
            const Use& previous = uses[number - kSlots];
            for (const auto& [writer, key] : use.arrivals) {
                const auto credit =
                    builder.send(writer, kBroadcast, credit_key(number, seat.group), {});
                for (const auto reader : previous.readers) builder.wait_for_own(credit, reader);
                // The next writer may be another: nothing of the bucket before may be on its way.
                for (const auto& [source, last] : previous.arrivals)
                    builder.wait_for(credit, source, last);
            }
        }
        return staging;
    }

    const Planner& planner_;
    StepOptions options_;
    RankKinds trainers_, rollouts_;
    std::vector<Rank> all_;  ///< rollout ranks
    Groups groups_;          ///< these
    Buckets buckets_;
};

}  // namespace

std::unique_ptr<const StrategyPlan> make_broadcast(const Planner& planner,
                                                   const StepOptions& options) {
    return std::make_unique<const Broadcast>(planner, options);
}

}  // namespace weightlift::plan::steps
