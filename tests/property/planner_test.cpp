// Laws of the planner over generated layouts. Memory is simulated element by element: each element
// of a trainer holds its own identity, and a rollout must end up with exactly the identities it
// wants.
#include "weightlift/plan/planner.hpp"

#include <bit>
#include <map>

#include <gtest/gtest.h>

#include "weightlift/plan/copy.hpp"
#include "weightlift/plan/statistics.hpp"

#include "support/random_layouts.hpp"

namespace weightlift::plan {
namespace {

using layout::Layout;
using layout::Side;
using test::pick;
using test::Random;

constexpr std::uint64_t kUnwritten = ~std::uint64_t{0};
constexpr std::uint64_t kElement = 2;  // all tensors are bf16 here

/// One identity per element of a rank's arena.
using Memory = std::vector<std::uint64_t>;

Memory identities(const model::ModelSpec& model, const Layout& layout, Rank rank) {
    const ArenaMap map(layout, rank);
    Memory memory(map.bytes() / kElement, kUnwritten);
    for (std::size_t i = 0; i < map.parameters().size(); ++i)
        for (const auto& piece : layout.parameter(map.parameters()[i]).pieces)
            for (std::uint64_t r = 0; r < piece.box.rows.size(); ++r)
                for (std::uint64_t c = 0; c < piece.box.columns.size(); ++c)
                    memory[(map.offset_at(i) + piece.offset + r * piece.pitch) / kElement + c] =
                        (std::uint64_t{piece.tensor} << 40) +
                        (piece.box.rows.begin + r) * model.tensor(piece.tensor).columns +
                        piece.box.columns.begin + c;
    return memory;
}

void write_once(Memory& to, std::uint64_t at, std::uint64_t value) {
    ASSERT_EQ(to[at], kUnwritten) << "element " << at << " written twice";
    to[at] = value;
}

void apply(const Copy& copy, const Memory& from, Memory& to) {
    for (std::uint64_t r = 0; r < copy.rows; ++r)
        for (Bytes b = 0; b < copy.row_bytes; b += kElement)
            write_once(to, (copy.dst_offset + r * copy.dst_pitch + b) / kElement,
                       from[(copy.src_offset + r * copy.src_pitch + b) / kElement]);
}

struct Scene {
    model::ModelSpec model;
    Layout trainer, rollout;
};

Scene make_scene(Random& random, test::SizeRange rows, test::SizeRange columns, bool is_even) {
    auto model = test::random_model(random, static_cast<int>(pick(random, 1, 10)), rows, columns);
    auto trainer = test::random_layout(random, Side::Trainer, model,
                                       static_cast<Rank>(pick(random, 1, 8)), is_even, true);
    auto rollout = test::random_layout(random, Side::Rollout, model,
                                       static_cast<Rank>(pick(random, 1, 8)), is_even);
    return {std::move(model), std::move(trainer), std::move(rollout)};
}

class Laws : public testing::TestWithParam<std::uint64_t> {
protected:
    Random random_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Seeds, Laws, testing::Range<std::uint64_t>(1, 501));

TEST_P(Laws, each_destination_element_is_written_once_from_the_same_logical_element) {
    const Scene scene = make_scene(random_, {1, 40}, {1, 24}, random_() % 2 == 0);
    const Planner planner(scene.model, scene.trainer, scene.rollout,
                          {.minimum_slice = pick(random_, 0, 256), .place = {}, .node = {}});
    std::vector<Memory> trainers;
    for (Rank r = 0; r < planner.trainers(); ++r)
        trainers.push_back(identities(scene.model, scene.trainer, r));
    for (Rank dst = planner.trainers(); dst < planner.world_size(); ++dst) {
        const Memory wanted = identities(scene.model, scene.rollout, dst - planner.trainers());
        const ArenaMap dst_map(scene.rollout, dst - planner.trainers());
        Memory memory(wanted.size(), kUnwritten);
        for (const Transfer& t : planner.received_by(dst)) {
            ASSERT_EQ(t.dst.rank, dst);
            ASSERT_EQ(t.rows, t.box.rows.size());
            ASSERT_EQ(t.row_bytes, t.box.columns.size() * kElement);
            const ArenaMap src_map(scene.trainer, t.src.rank);
            // Deliberately not through merge_transfers, which has a test of its own.
            apply({0, src_map.offset_of(t.src.parameter) + t.src.offset, t.src.pitch,
                   dst_map.offset_of(t.dst.parameter) + t.dst.offset, t.dst.pitch, t.rows,
                   t.row_bytes},
                  trainers[static_cast<std::size_t>(t.src.rank)], memory);
        }
        ASSERT_EQ(memory, wanted) << "rollout rank " << dst - planner.trainers();
    }
}

TEST_P(Laws, senders_and_receivers_compute_the_same_transfers_and_digest) {
    const Scene scene = make_scene(random_, {1, 40}, {1, 24}, false);
    PlanOptions options{.minimum_slice = pick(random_, 0, 256), .place = {}, .node = {}};
    const Rank world = scene.trainer.world_size() + scene.rollout.world_size();
    if (random_() % 2 == 0)
        for (Rank r = 0; r < world; ++r)
            options.node.push_back(static_cast<int>(pick(random_, 0, 2)));
    if (random_() % 2 == 0)
        for (Rank r = 0; r < world; ++r)
            options.rail.push_back(static_cast<int>(pick(random_, 0, 3)));
    const Planner planner(scene.model, scene.trainer, scene.rollout, options);
    std::uint64_t sent_digest = 0, received_digest = 0;
    std::map<std::pair<Rank, Rank>, std::vector<Transfer>> sent, received;
    for (Rank r = 0; r < world; ++r) {
        const auto out = planner.sent_by(r);
        const auto in = planner.received_by(r);
        sent_digest += planner.digest(out);
        received_digest += planner.digest(in);
        for (const Transfer& t : out) sent[{t.src.rank, t.dst.rank}].push_back(t);
        for (const Transfer& t : in) received[{t.src.rank, t.dst.rank}].push_back(t);
    }
    // Equal lists pair by pair, in equal order: what merging and two-sided backends build on.
    EXPECT_EQ(sent, received);
    EXPECT_EQ(sent_digest, received_digest);
    EXPECT_EQ(gather_statistics(planner).digest, sent_digest);
}

TEST_P(Laws, holders_on_the_node_come_first_then_those_on_the_rail) {
    const Scene scene = make_scene(random_, {1, 40}, {1, 24}, false);
    PlanOptions options{.minimum_slice = pick(random_, 0, 256), .place = {}, .node = {}};
    const Rank world = scene.trainer.world_size() + scene.rollout.world_size();
    for (Rank r = 0; r < world; ++r) {
        options.node.push_back(static_cast<int>(pick(random_, 0, 4)));
        options.rail.push_back(static_cast<int>(pick(random_, 0, 3)));
    }
    const Planner planner(scene.model, scene.trainer, scene.rollout, options);
    const auto near = [&](const std::vector<int>& key, Rank a, Rank b) {
        return key[static_cast<std::size_t>(a)] == key[static_cast<std::size_t>(b)];
    };
    for (Rank dst = planner.trainers(); dst < world; ++dst)
        for (const Transfer& t : planner.received_by(dst)) {
            bool on_node = false, on_rail = false;
            for (const auto& ref : scene.trainer.pieces_of(t.tensor)) {
                const auto& parameter = scene.trainer.parameter(ref.parameter);
                if (!parameter.pieces[ref.piece].box.contains(t.box)) continue;
                for (const Rank holder : scene.trainer.rank_set(parameter.ranks)) {
                    on_node = on_node || near(options.node, holder, dst);
                    on_rail = on_rail || near(options.rail, holder, dst);
                }
            }
            if (on_node) {
                EXPECT_TRUE(near(options.node, t.src.rank, dst));
            } else if (on_rail) {
                EXPECT_TRUE(near(options.rail, t.src.rank, dst));
            }
        }
}

TEST_P(Laws, bytes_are_conserved) {
    const Scene scene = make_scene(random_, {1, 40}, {1, 24}, false);
    const Planner planner(scene.model, scene.trainer, scene.rollout);
    const PlanStatistics stats = gather_statistics(planner);
    Bytes wanted = 0;
    for (const auto& parameter : scene.rollout.parameters())
        for (const auto& piece : parameter.pieces)
            wanted +=
                piece.box.elements() * kElement * scene.rollout.rank_set(parameter.ranks).size();
    EXPECT_EQ(stats.bytes, wanted);
    Bytes sent = 0, received = 0, sized = 0;
    for (const Bytes b : stats.sent) sent += b;
    for (const Bytes b : stats.received) received += b;
    for (const Bytes b : stats.sizes.bytes) sized += b;
    EXPECT_EQ(sent, wanted);
    EXPECT_EQ(received, wanted);
    EXPECT_EQ(sized, wanted);
}

TEST_P(Laws, merged_and_rotated_copies_move_the_same_elements) {
    const Scene scene = make_scene(random_, {1, 40}, {1, 24}, random_() % 2 == 0);
    const Planner planner(scene.model, scene.trainer, scene.rollout,
                          {.minimum_slice = 64, .place = {}, .node = {}});
    std::vector<Memory> wanted, memory;
    std::vector<ArenaMap> maps;
    for (Rank r = 0; r < planner.rollouts(); ++r) {
        wanted.push_back(identities(scene.model, scene.rollout, r));
        memory.emplace_back(wanted.back().size(), kUnwritten);
        maps.emplace_back(scene.rollout, r);
    }
    for (Rank src = 0; src < planner.trainers(); ++src) {
        const Memory from = identities(scene.model, scene.trainer, src);
        const ArenaMap src_map(scene.trainer, src);
        const auto transfers = planner.sent_by(src);
        std::vector<std::vector<Copy>> by_destination(static_cast<std::size_t>(planner.rollouts()));
        for (Rank dst = 0; dst < planner.rollouts(); ++dst) {
            std::vector<Transfer> pair;
            for (const Transfer& t : transfers)
                if (t.dst.rank == planner.trainers() + dst) pair.push_back(t);
            const auto at = static_cast<std::size_t>(dst);
            by_destination[at] =
                merge_transfers(pair, static_cast<std::uint32_t>(dst), src_map, maps[at]);
            EXPECT_LE(by_destination[at].size(), pair.size());
        }
        const auto first = first_destination(static_cast<std::uint64_t>(src),
                                             static_cast<std::uint64_t>(planner.trainers()),
                                             by_destination.size());
        for (const Copy& copy :
             rotate_copies(by_destination, first, pick(random_, 1, 300) * kElement))
            apply(copy, from, memory[copy.destination]);
    }
    for (std::size_t r = 0; r < wanted.size(); ++r)
        ASSERT_EQ(memory[r], wanted[r]) << "rollout " << r;
}

TEST_P(Laws, a_rollout_that_is_a_trainer_of_the_same_layout_moves_nothing) {
    const auto model =
        test::random_model(random_, static_cast<int>(pick(random_, 1, 10)), {1, 40}, {1, 24});
    const auto world = static_cast<Rank>(pick(random_, 1, 8));
    const auto seed = random_();
    Random for_trainer(seed), for_rollout(seed);
    const Layout trainer = test::random_layout(for_trainer, Side::Trainer, model, world);
    const Layout rollout = test::random_layout(for_rollout, Side::Rollout, model, world);
    PlanOptions options;
    for (int side = 0; side < 2; ++side)
        for (Rank r = 0; r < world; ++r) options.place.push_back(r);
    const Planner planner(model, trainer, rollout, options);
    for (Rank r = 0; r < world; ++r)
        for (const Transfer& t : planner.received_by(world + r)) {
            ASSERT_EQ(t.src.rank, r);
            ASSERT_EQ(t.src.offset, t.dst.offset);
        }
}

TEST_P(Laws, a_holder_on_the_destinations_node_comes_first) {
    const Scene scene = make_scene(random_, {1, 40}, {1, 24}, true);
    PlanOptions options;
    const Rank world = scene.trainer.world_size() + scene.rollout.world_size();
    for (Rank r = 0; r < world; ++r) options.node.push_back(static_cast<int>(pick(random_, 0, 2)));
    const Planner planner(scene.model, scene.trainer, scene.rollout, options);
    const auto node = [&](Rank r) { return options.node[static_cast<std::size_t>(r)]; };
    for (Rank dst = planner.trainers(); dst < world; ++dst)
        for (const Transfer& t : planner.received_by(dst)) {
            if (node(t.src.rank) == node(dst)) continue;
            for (const auto ref : scene.trainer.pieces_of(t.tensor)) {
                const auto& parameter = scene.trainer.parameter(ref.parameter);
                if (!parameter.pieces[ref.piece].box.contains(t.box)) continue;
                for (const Rank holder : scene.trainer.rank_set(parameter.ranks))
                    ASSERT_NE(node(holder), node(dst)) << "rank " << holder << " was nearer";
            }
        }
}

/// The least possible load of the busiest source, by linear-programming duality (equivalently the
/// minimum cut of the flow network demand -> holder): the maximum over sets of sources of the
/// demand that only they can serve, divided by their number.
double fractional_optimum(const std::map<std::uint32_t, double>& demand_by_holders, Rank sources) {
    double optimum = 0;
    for (std::uint32_t set = 1; set < (1U << sources); ++set) {
        double only = 0;
        for (const auto& [holders, bytes] : demand_by_holders)
            if ((holders & ~set) == 0) only += bytes;
        optimum = std::max(optimum, only / std::popcount(set));
    }
    return optimum;
}

TEST_P(Laws, the_busiest_source_is_within_5_percent_of_the_fractional_optimum) {
    const Scene scene = make_scene(random_, {300, 600}, {8, 16}, random_() % 2 == 0);
    const Planner planner(scene.model, scene.trainer, scene.rollout,
                          {.minimum_slice = 1, .place = {}, .node = {}});
    std::map<std::uint32_t, double> demand;
    for (const auto& parameter : scene.rollout.parameters())
        for (const auto& piece : parameter.pieces)
            for (std::uint64_t r = piece.box.rows.begin; r < piece.box.rows.end; ++r)
                for (std::uint64_t c = piece.box.columns.begin; c < piece.box.columns.end; ++c) {
                    std::uint32_t holders = 0;
                    for (const auto ref : scene.trainer.pieces_of(piece.tensor)) {
                        const auto& source = scene.trainer.parameter(ref.parameter);
                        if (!source.pieces[ref.piece].box.contains({{r, r + 1}, {c, c + 1}}))
                            continue;
                        for (const Rank rank : scene.trainer.rank_set(source.ranks))
                            holders |= 1U << rank;
                    }
                    demand[holders] += static_cast<double>(
                        kElement * scene.rollout.rank_set(parameter.ranks).size());
                }
    const PlanStatistics stats = gather_statistics(planner);
    const auto busiest =
        static_cast<double>(stats.sent[static_cast<std::size_t>(stats.busiest_sender())]);
    EXPECT_LE(busiest, 1.05 * fractional_optimum(demand, planner.trainers()) + 64);
}

}  // namespace
}  // namespace weightlift::plan
