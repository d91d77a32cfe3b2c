#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include <gtest/gtest.h>

#include "weightlift/transport/transport.hpp"

#include "nccl/broadcasts.hpp"
#include "nccl/lists.hpp"

namespace weightlift::transport::nccl {
namespace {

constexpr int kSelf = 2;
constexpr Bytes kArena = 1 << 17;

Copy range(std::uint32_t destination, Bytes from, Bytes to, Bytes bytes) {
    return {destination, from, bytes, to, bytes, 1, bytes};
}

/// Of rank 2, with so many destinations: ranks 0, 1, …, itself among them.
class Plan {
public:
    explicit Plan(std::size_t destinations) {
        plan_.broadcast_from = 2;
        for (std::size_t d = 0; d < destinations; ++d)
            plan_.destinations.push_back({static_cast<int>(d), kArena, {}});
    }
    void add(std::uint32_t round, std::uint32_t destination, const std::vector<Copy>& copies) {
        plan_.copies.insert(plan_.copies.end(), copies.begin(), copies.end());
        plan_.segments.push_back({plan_.copies.size(), destination, round});
    }
    [[nodiscard]] std::vector<PairMessages> lists(const MessageRules& rules,
                                                  std::uint32_t broadcast_from = 2) const {
        BoundPlan plan = plan_;
        plan.broadcast_from = broadcast_from;
        return cut_lists(plan, std::vector<MessageRules>(plan.destinations.size(), rules), kSelf);
    }
    [[nodiscard]] const BoundPlan& plan() const { return plan_; }

private:
    BoundPlan plan_;
};

/// What the list puts into its destination's memory, by the source's offsets.
std::vector<Bytes> memory_after(const PairMessages& list) {
    std::vector<Bytes> memory(kArena);
    for (const Message& m : list.messages)
        for (Bytes i = 0; i < m.bytes; ++i) memory[m.dst_offset + i] = m.src_offset + i + 1;
    for (const auto& [copy, at] : list.packed)
        for (std::uint64_t row = 0; row < copy.rows; ++row)
            for (Bytes i = 0; i < copy.row_bytes; ++i)
                memory[copy.dst_offset + row * copy.dst_pitch + i] =
                    copy.src_offset + row * copy.src_pitch + i + 1;
    return memory;
}

/// Number, then offset and bytes at the source.
using Operations = std::vector<std::tuple<std::uint64_t, Bytes, Bytes>>;
Operations broadcasts_of(const PairMessages& list) {
    Operations operations;
    for (std::size_t i = 0; i < list.rounds.size(); ++i)
        if (is_broadcast(list.rounds[i].number))
            for (const Message& m : list.messages_of(i))
                operations.emplace_back(list.rounds[i].number, m.src_offset, m.bytes);
    return operations;
}

/// Rounds in which all, some or single destinations get the same, or each something else.
Plan random_plan(std::mt19937_64& random) {
    Plan plan(2 + random() % 4);
    const auto count = static_cast<std::uint32_t>(plan.plan().destinations.size());
    std::vector<Bytes> ends(count);
    for (std::uint32_t round = 0; round < 30; ++round) {
        const bool is_alike = random() % 3 != 0;
        const std::uint64_t pieces = random() % 4 == 0 ? 3 : 1;
        Bytes bytes = 1 + random() % 900, from = random() % 5000;
        for (std::uint32_t d = 0; d < count; ++d) {
            if (random() % 8 == 0) continue;
            if (!is_alike) bytes = 1 + random() % 900;
            std::vector<Copy> copies;
            for (std::uint64_t p = 0; p < pieces; ++p) {
                copies.push_back(range(d, from + p * 1000, ends[d], bytes));
                ends[d] += bytes + random() % 2;
            }
            if (random() % 12 == 0)
                copies.push_back({d, from, 20, std::exchange(ends[d], ends[d] + 90), 30, 3, 10});
            plan.add(round, d, copies);
        }
    }
    return plan;
}

TEST(NcclBroadcasts, bring_every_byte_that_sends_would_and_are_alike_at_all_members) {
    std::size_t found = 0, sent = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const Plan plan = random_plan(random);
        const MessageRules rules{.direct = 1 + random() % 600,
                                 .slot = 16 + random() % 900,
                                 .message = 1 + random() % 900,
                                 .messages = 1 + random() % 5};
        const auto lists = plan.lists(rules), by_sends = plan.lists(rules, 0);
        std::vector<int> members;
        Operations operations;
        for (std::size_t d = 0; d < lists.size(); ++d) {
            const int rank = plan.plan().destinations[d].rank;
            SCOPED_TRACE(rank);
            EXPECT_EQ(memory_after(lists[d]), memory_after(by_sends[d]));
            EXPECT_EQ(lists[d].bytes(), by_sends[d].bytes());
            EXPECT_EQ(lists[d].rounds.back().segments_end, by_sends[d].rounds.back().segments_end);
            EXPECT_TRUE(broadcasts_of(by_sends[d]).empty());
            EXPECT_NO_THROW(check_messages(lists[d], kArena, "rank 2"));
            if (lists[d].members.empty()) {
                EXPECT_TRUE(broadcasts_of(lists[d]).empty());
                ++sent;
                continue;
            }
            EXPECT_NO_THROW(check_broadcasts(lists[d], kSelf, rank, "rank 2"));
            EXPECT_NE(rank, kSelf) << "its own copies need no wire";
            if (members.empty()) {
                members = lists[d].members;
                operations = broadcasts_of(lists[d]);
                EXPECT_FALSE(operations.empty());
            }
            EXPECT_EQ(lists[d].members, members);
            EXPECT_EQ(broadcasts_of(lists[d]), operations);
            EXPECT_TRUE(std::binary_search(members.begin(), members.end(), rank));
            ++found;
        }
    }
    EXPECT_GT(found, 100U);
    EXPECT_GT(sent, 100U);
}

TEST(NcclBroadcasts, end_segments_where_sends_do) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const Plan plan = random_plan(random);
        const MessageRules rules{.direct = 1 + random() % 600, .messages = 1 + random() % 5};
        // After each of the plan's rounds as many are there.
        const auto ends = [](const PairMessages& list) {
            std::map<std::uint32_t, std::uint64_t> by_round;
            for (const Round& round : list.rounds)
                by_round[round_of_plan(round.number)] = round.segments_end;
            return by_round;
        };
        const auto lists = plan.lists(rules), by_sends = plan.lists(rules, 0);
        for (std::size_t d = 0; d < lists.size(); ++d) EXPECT_EQ(ends(lists[d]), ends(by_sends[d]));
    }
}

struct Row {
    const char* name;
    std::vector<std::vector<Copy>> copies;  ///< of one round, by destination
    std::vector<int> members;
    std::uint32_t broadcast_from = 2;
};

TEST(NcclBroadcasts, are_for_what_several_destinations_get_alike) {
    constexpr Bytes k = KiB, big = 2 * MiB;
    const Row table[] = {
        {"all the same", {{range(0, 0, 0, big)}, {range(1, 0, 0, big)}}, {0, 1, 2}},
        {"to different places", {{range(0, 0, 7, big)}, {range(1, 0, big, big)}}, {0, 1, 2}},
        {"one short range", {{range(0, 0, 0, k)}, {range(1, 0, 0, k)}}, {0, 1, 2}},
        {"cut differently by the plan",
         {{range(0, 0, 0, k), range(0, k, k, big)}, {range(1, 0, 0, k + big)}},
         {0, 1, 2}},
        {"not to itself",
         {{range(0, 0, 0, big)}, {range(1, 0, 0, big)}, {range(2, 0, 0, big)}},
         {0, 1, 2}},
        {"to some, and another range to one",
         {{range(0, 0, 0, big)}, {range(1, 1, 0, big)}, {}, {range(3, 0, 0, big)}},
         {0, 2, 3}},
        {"to two pairs: the one of more bytes",
         {{range(0, 0, 0, big)},
          {range(1, 0, 0, big)},
          {},
          {range(3, 0, 0, 2 * big)},
          {range(4, 0, 0, 2 * big)}},
         {2, 3, 4}},
        {"one destination", {{range(0, 0, 0, big)}}, {}},
        {"one destination, where that is asked for", {{range(0, 0, 0, big)}}, {0, 2}, 1},
        {"itself and another", {{range(0, 0, 0, big)}, {}, {range(2, 0, 0, big)}}, {}},
        {"other bytes", {{range(0, 0, 0, big)}, {range(1, k, 0, big)}}, {}},
        {"more bytes", {{range(0, 0, 0, big)}, {range(1, 0, 0, big + k)}}, {}},
        {"another order",
         {{range(0, 0, 0, big), range(0, 3 * big, big, big)},
          {range(1, 3 * big, big, big), range(1, 0, 0, big)}},
         {}},
        {"short rows", {{{0, 0, 8 * k, 0, k, 9, k}}, {{1, 0, 8 * k, 0, k, 9, k}}}, {}},
        {"nothing", {{}, {}}, {}},
        {"none is asked for", {{range(0, 0, 0, big)}, {range(1, 0, 0, big)}}, {}, 0},
    };
    for (const Row& row : table) {
        SCOPED_TRACE(row.name);
        Plan plan(row.copies.size());
        for (std::uint32_t d = 0; d < row.copies.size(); ++d) plan.add(4, d, row.copies[d]);
        for (std::size_t d = 0; const PairMessages& list : plan.lists({}, row.broadcast_from)) {
            const bool is_member = std::count(row.members.begin(), row.members.end(), d) > 0 &&
                                   static_cast<int>(d) != kSelf;
            EXPECT_EQ(list.members, is_member ? row.members : std::vector<int>()) << d;
            EXPECT_EQ(list.broadcast_bytes(), is_member ? list.bytes() : 0U);
            ++d;
        }
    }
}

TEST(NcclBroadcasts, have_numbers_after_all_others_of_their_round) {
    Plan plan(2);
    for (std::uint32_t d = 0; d < 2; ++d) plan.add(7, d, {range(d, 0, 0, MiB)});
    const PairMessages list = plan.lists({}).front();
    ASSERT_EQ(list.rounds.size(), 2U) << "the epoch goes by itself";
    EXPECT_EQ(list.rounds[0].number, round_number(7, 0));
    EXPECT_TRUE(list.carries_epoch(0));
    EXPECT_EQ(list.rounds[1].number, broadcast_number(7, kSelf, 0));
    EXPECT_FALSE(list.carries_epoch(1));
    EXPECT_EQ(root_of(list.rounds[1].number), kSelf);
    EXPECT_EQ(list.answer_number(), last_number(7));
    EXPECT_FALSE(is_broadcast(list.answer_number()));
    EXPECT_TRUE(is_broadcast(broadcast_number(7, kRoots - 1, kMostBroadcastRounds - 1)));
    EXPECT_LT(broadcast_number(7, kRoots - 1, kMostBroadcastRounds - 1), last_number(7));
    EXPECT_LT(last_number(7), round_number(8, 0));
}

TEST(NcclBroadcasts, of_a_peer_are_refused_where_they_are_not_its_own_or_not_for_this_rank) {
    Plan plan(2);
    for (std::uint32_t d = 0; d < 2; ++d) plan.add(7, d, {range(d, 0, 0, 1000)});
    const PairMessages good = plan.lists({}).front();
    EXPECT_NO_THROW(check_broadcasts(good, kSelf, 0, "rank 2"));
    const auto expect_refusal = [&](const char* what, int source, int self, auto change) {
        PairMessages bad = good;
        change(bad);
        try {
            check_broadcasts(bad, source, self, "rank 2");
            ADD_FAILURE() << what << " was taken";
        } catch (const TransportError& error) {
            EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
        }
    };
    const auto as_it_is = [](PairMessages&) {};
    expect_refusal("another source", 1, 0, as_it_is);
    expect_refusal("another destination", kSelf, 3, as_it_is);
    expect_refusal("no members", kSelf, 0, [](PairMessages& l) { l.members.clear(); });
    expect_refusal("a member twice", kSelf, 0, [](PairMessages& l) { l.members = {0, 0, 2}; });
    expect_refusal("a root that is none", kSelf, 0,
                   [](PairMessages& l) { l.rounds[1].number = broadcast_number(7, 1, 0); });
    expect_refusal("an empty one", kSelf, 0, [](PairMessages& l) { l.rounds[1].messages_end = 0; });
    expect_refusal("a packed one", kSelf, 0, [](PairMessages& l) { l.rounds[1].packed_bytes = 9; });
    expect_refusal("the first", kSelf, 0,
                   [](PairMessages& l) { l.rounds.erase(l.rounds.begin()); });
}

TEST(NcclLists, say_the_same_after_they_are_told) {
    Plan plan(2);
    for (std::uint32_t d = 0; d < 2; ++d) plan.add(7, d, {range(d, 0, 0, 1000)});
    const PairMessages list = plan.lists({}).front();
    mpi::Bytestring bytes = serialize(list);
    const PairMessages told = deserialize(bytes);
    EXPECT_EQ(memory_after(told), memory_after(list));
    EXPECT_EQ(broadcasts_of(told), broadcasts_of(list));
    EXPECT_EQ(told.members, list.members);
    bytes.pop_back();
    EXPECT_THROW((void)deserialize(bytes), TransportError);
}

}  // namespace
}  // namespace weightlift::transport::nccl
