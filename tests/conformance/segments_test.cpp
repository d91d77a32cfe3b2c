// Segments: copies that are held back, and counted where they arrive. Run by mpirun with 2 and 4
// ranks.
#include "conformance/rig.hpp"

namespace weightlift::transport {
namespace {

class Segments : public testing::TestWithParam<std::string_view> {
protected:
    void SetUp() override {
        if (const auto why = cannot_test(GetParam()); !why.empty()) GTEST_SKIP() << why;
    }
};

/// Collective when it is called first.
int last_rank() {
    static const int last = mpi::Communicator::world().size() - 1;
    return last;
}

Copy contiguous(Bytes from, Bytes to, Bytes bytes) { return {0, from, bytes, to, bytes, 1, bytes}; }

/// Each rank's list in order of the rounds, which is the order of the whole.
Scenario scenario_of(Bytes arena_bytes, std::vector<Step> steps) {
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.round < b.round; });
    Scenario scenario{.arena_bytes = arena_bytes, .moves = {}};
    scenario.steps = std::move(steps);
    return scenario;
}

constexpr std::uint32_t kChunks = 7;
constexpr Bytes kChunkBytes = 6000;

/// 0 to 1 to … to the last rank, a chunk as soon as it is there. Odd chunks are rows with gaps.
Scenario relay() {
    std::vector<Step> steps;
    for (std::uint32_t c = 0; c < kChunks; ++c)
        for (int rank = 0; rank < last_rank(); ++rank) {
            Step step{.src = rank, .dst = rank + 1, .round = c + static_cast<std::uint32_t>(rank)};
            const Bytes at = c * kChunkBytes;
            step.copies = {contiguous(at, at, 1000)};
            if (c % 2 == 0)
                step.copies.push_back(contiguous(at + 1000, at + 1000, kChunkBytes - 1000));
            else
                step.copies.push_back({0, at + 1000, 250, at + 1000, 250, 20, 100});
            if (rank > 0) step.waits = {{rank - 1, c + 1}};
            steps.push_back(step);
        }
    return scenario_of(kChunks * kChunkBytes, std::move(steps));
}

/// What a rank got in one push is not what it holds before the next: fill() overwrites it.
void push_some(std::string_view transport, const Scenario& scenario) {
    Rig rig(transport, scenario);
    const BoundPlan plan = rig.plan();
    std::uint64_t epoch = 0;
    for (int prepared = 0; prepared < 2; ++prepared) {
        const auto push = rig.transport().prepare(plan);
        for (int i = 0; i < 3; ++i) {
            rig.push_and_check(*push, ++epoch);
            if (!plan.segments.empty()) {
                EXPECT_EQ(push->placed(), plan.segments.size());
            }
            for (std::size_t s = 0; s < plan.sources.size(); ++s)
                EXPECT_EQ(push->signals_from(s), plan.signals[s]);
        }
        EXPECT_EQ(push->completed_bytes(), 3 * rig.bytes_written());
    }
}

TEST_P(Segments, relay_what_has_arrived) { push_some(GetParam(), relay()); }

TEST_P(Segments, relay_what_has_arrived_in_small_pieces) {
    Scenario scenario = relay();
    scenario.window = 1500;
    scenario.slice = 1000;
    scenario.max_message = 700;
    push_some(GetParam(), scenario);
}

TEST_P(Segments, go_both_ways_between_two_ranks) {
    // Each sends its lower half to the other's upper half.
    constexpr Bytes kHalf = kChunks * kChunkBytes;
    std::vector<Step> steps;
    for (std::uint32_t c = 0; c < kChunks; ++c)
        for (int rank = 0; rank <= last_rank(); ++rank)
            steps.push_back({rank,
                             rank ^ 1,
                             c,
                             {contiguous(c * kChunkBytes, kHalf + c * kChunkBytes, kChunkBytes)},
                             {}});
    push_some(GetParam(), scenario_of(2 * kHalf, std::move(steps)));
}

TEST_P(Segments, are_cut_out_of_own_memory) {
    // Rank 0 writes to the last one's staging, from which that cuts columns.
    constexpr Bytes kStaging = kChunks * kChunkBytes;
    const int last = last_rank();
    std::vector<Step> steps;
    for (std::uint32_t c = 0; c < kChunks; ++c) {
        const Bytes at = c * kChunkBytes;
        steps.push_back({0, last, c, {contiguous(at, kStaging + at, kChunkBytes)}, {}});
        steps.push_back(
            {last, last, c + 1, {{0, kStaging + at, 200, at, 100, 30, 100}}, {{0, c + 1}}});
    }
    push_some(GetParam(), scenario_of(2 * kStaging, std::move(steps)));
}

TEST_P(Segments, wait_for_credits_where_staging_is_used_again) {
    // Two slots for 40 chunks: cut out, then free again for the chunk after the next.
    constexpr std::uint32_t kSlots = 2, kTotal = 40;
    constexpr Bytes kBytes = 1500, kStaging = kTotal * kBytes;
    const int last = last_rank();
    std::vector<Step> steps;
    for (std::uint32_t c = 0; c < kTotal; ++c) {
        const Bytes slot = kStaging + c % kSlots * kBytes;
        Step sent{.src = 0, .dst = last, .round = 2 * c};
        sent.copies = {contiguous(c * kBytes, slot, kBytes)};
        if (c >= kSlots) sent.waits = {{last, c + 1 - kSlots}};
        steps.push_back(sent);
        steps.push_back(
            {last, last, 2 * c + 1, {contiguous(slot, c * kBytes, kBytes)}, {{0, c + 1}}});
        steps.push_back({last, 0, 2 * c + 2, {}, {{last, 2 * c + 1}}});
    }
    push_some(GetParam(), scenario_of(kStaging + kSlots * kBytes, std::move(steps)));
}

/// Each in turn to all others, chunk by chunk, to another place at each; every third chunk is rows
/// with gaps. Odd chunks wait for what the one before has brought.
Scenario to_all() {
    constexpr std::uint32_t kTotal = 9;
    const int count = last_rank() + 1;
    const auto part = [&](int rank) { return static_cast<Bytes>(rank) * kTotal * kChunkBytes; };
    // Segments of a rank before its chunk c >= 1, with those to itself.
    const auto own_before = [&](std::uint32_t c) {
        return static_cast<std::uint32_t>(count - 1) * c + c - 1;
    };
    std::vector<Step> steps;
    for (std::uint32_t c = 0; c < kTotal; ++c)
        for (int root = 0; root < count; ++root)
            for (int other = 0; other < count; ++other) {
                if (other == root) continue;
                const Bytes from = c * kChunkBytes;
                // Behind its own.
                const Bytes to = part(1 + (root - other + count) % count) + from;
                Step step{.src = root, .dst = other, .round = c};
                if (c % 3 == 2)
                    step.copies.push_back({0, from, 300, to, 200, 20, 100});
                else
                    step.copies.push_back(contiguous(from, to, kChunkBytes));
                if (c % 2 == 1) step.waits = {{(root + 1) % count, c}, {root, own_before(c)}};
                steps.push_back(step);
            }
    // And to itself what it sent before, once that has gone to all others.
    for (std::uint32_t c = 1; c < kTotal; ++c)
        for (int rank = 0; rank < count; ++rank) {
            const Bytes from = (c - 1) * kChunkBytes;
            steps.push_back({rank,
                             rank,
                             c,
                             {{0, from, 60, part(count + 1) + from, 50, 100, 50}},
                             {{rank, own_before(c)}}});
        }
    Scenario scenario = scenario_of(part(count + 2), std::move(steps));
    scenario.broadcast_from = 1;
    return scenario;
}

TEST_P(Segments, go_to_all_alike) { push_some(GetParam(), to_all()); }

TEST_P(Segments, go_to_all_alike_in_small_pieces) {
    Scenario scenario = to_all();
    scenario.window = 1500;
    scenario.slice = 1000;
    scenario.max_message = 700;
    push_some(GetParam(), scenario);
}

TEST_P(Segments, are_all_counted_where_the_destination_looks_late) {
    constexpr std::uint32_t kMany = 400;
    const int last = last_rank();
    std::vector<Step> steps;
    for (std::uint32_t c = 0; c < kMany; ++c) {
        Step step{.src = 0, .dst = last, .round = c};
        if (c % 5 != 0) step.copies = {contiguous(c * 24, c * 24, 24)};
        steps.push_back(step);
    }
    Rig rig(GetParam(), scenario_of(kMany * 24, std::move(steps)));
    const auto push = rig.transport().prepare(rig.plan());
    for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
        rig.fill(epoch);
        push->start(epoch, epoch);
        if (rig.rank() == 0) {
            push->allow(kMany);
            for (int i = 0; i < 2000; ++i) static_cast<void>(push->test());
        }
        rig.world().barrier(soon(), "source has gone as far as it can");
        Rig::finish(*push);
        if (rig.rank() == 0) {
            EXPECT_EQ(push->placed(), kMany);
        }
        if (rig.rank() == last) {
            EXPECT_EQ(push->signals_from(0), kMany);
        }
        rig.world().barrier(soon(), "done");
        rig.check(epoch);
        rig.world().barrier(soon(), "checked");
    }
}

TEST_P(Segments, go_no_further_than_allowed) {
    Rig rig(GetParam(), relay());
    const BoundPlan plan = rig.plan();
    const auto push = rig.transport().prepare(plan);
    rig.fill(1);
    push->start(1, 1);
    // By rounds: what a rank waits for is of smaller ones.
    const auto below = [](int round, int first) {
        return static_cast<std::uint32_t>(std::max(0, round - first));
    };
    for (int round = 0; std::cmp_less(round, kChunks); ++round) {
        const std::uint32_t allowed = below(round, rig.rank());
        const std::uint32_t arriving = below(round, rig.rank() - 1);
        if (!plan.segments.empty()) push->allow(allowed);
        // Without waiting for what arrives: all that a rank sends is there, whatever is in it.
        const auto is_there = [&] {
            return (plan.segments.empty() || push->placed() == allowed) &&
                   (plan.sources.empty() || push->signals_from(0) == arriving);
        };
        const auto deadline = soon();
        do {
            ASSERT_FALSE(push->test());
            ASSERT_FALSE(deadline.passed()) << "in round " << round;
        } while (rig.world().sum(is_there() ? 1 : 0, soon(), "agreement") < rig.world().size());
        for (int i = 0; i < 200; ++i) ASSERT_FALSE(push->test());
        rig.world().barrier(soon(), "as far as allowed");
        EXPECT_TRUE(is_there());
        EXPECT_FALSE(push->pending().empty());
    }
    if (!plan.segments.empty()) push->allow(kChunks);
    Rig::finish(*push);
    rig.world().barrier(soon(), "done");
}

TEST_P(Segments, of_another_number_than_expected_are_refused) {
    for (const int more : {-1, 1}) {
        // All ranks leave by an exception, as they do where one of them fails.
        std::string text = "nothing was thrown";
        try {
            Rig rig(GetParam(), relay());
            BoundPlan plan = rig.plan();
            const bool is_last = rig.rank() == last_rank();
            if (is_last) plan.signals[0] = static_cast<std::uint32_t>(kChunks - more);
            rig.fill(1);  // before some may be refused in prepare
            const auto push = rig.transport().prepare(plan);
            push->start(1, 1);
            Rig::Gates gates(rig, *push);
            const mpi::Deadline patience(std::chrono::seconds(is_last ? 60 : 3));
            do gates.open();
            while (!push->test() && !patience.passed());
            throw TransportError("the destination refuses");
        } catch (const TransportError& error) {
            text = error.what();
        }
        const auto world = mpi::Communicator::world();
        if (world.rank() == last_rank()) {
            const std::string peer = "rank " + std::to_string(last_rank() - 1);
            EXPECT_NE(text.find(peer), std::string::npos) << text;
        }
        world.barrier(soon(), "refused");
    }
}

INSTANTIATE_TEST_SUITE_P(Transports, Segments,
                         testing::ValuesIn(transport_names().begin(), transport_names().end()),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace weightlift::transport
