// Run by mpirun with 2 and 4 ranks.
#include "weightlift/mpi/communicator.hpp"

#include <numeric>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "weightlift/base/hash.hpp"

namespace weightlift::mpi {
namespace {

using std::chrono::milliseconds;

Deadline soon() { return Deadline(std::chrono::seconds(30)); }

Bytestring bytes_of(std::uint64_t seed, std::size_t n) {
    Bytestring value(n);
    for (std::size_t i = 0; i < n; ++i) value[i] = static_cast<std::byte>(splitmix64(seed + i));
    return value;
}

/// What of DeadlineError, or "" where `action` ends well.
template <class F>
std::string deadline_text(F action) {
    try {
        action();
    } catch (const DeadlineError& error) {
        return error.what();
    }
    return {};
}

TEST(Communicator, reduces_over_all_ranks) {
    const auto world = Communicator::world();
    const auto n = static_cast<std::uint64_t>(world.size());
    const auto mine = static_cast<std::uint64_t>(world.rank()) + 1;
    EXPECT_EQ(world.sum(mine, soon(), "sum"), n * (n + 1) / 2);
    EXPECT_EQ(world.sum(~std::uint64_t{0}, soon(), "sum"), std::uint64_t{0} - n);
    EXPECT_EQ(world.max(static_cast<std::int64_t>(mine), soon(), "max"), world.size());
    EXPECT_EQ(world.min(-static_cast<double>(mine), soon(), "min"), -static_cast<double>(n));
    EXPECT_EQ(world.min(world.rank(), soon(), "min"), 0);
    world.barrier(soon(), "barrier");
}

TEST(Communicator, sums_long_vectors_at_the_root_only) {
    const auto world = Communicator::world();
    const auto n = static_cast<std::uint64_t>(world.size());
    std::vector<std::uint64_t> values((std::size_t{1} << 21) + 3);
    const auto mine = static_cast<std::uint64_t>(world.rank());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i + mine;
    const auto before = values;
    world.reduce_sum_to_root(values, soon(), "sums");
    if (world.rank() == 0) {
        for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_EQ(values[i], i * n + n * (n - 1) / 2) << i;
    } else {
        EXPECT_EQ(values, before);
    }
}

TEST(Communicator, gathers_records_and_strings_in_rank_order) {
    struct Record {
        int rank;
        char tag[20];
    };
    const auto world = Communicator::world();
    const auto records = world.gather(Record{world.rank(), "x"}, soon(), "gather");
    // Rank 1's string is empty.
    const auto size = [](int r) { return r == 1 ? 0 : static_cast<std::size_t>(r + 1) * 70001; };
    const auto mine = bytes_of(static_cast<std::uint64_t>(world.rank()), size(world.rank()));
    const auto strings = world.gather_strings(mine, soon(), "gather strings");
    if (world.rank() != 0) {
        EXPECT_TRUE(records.empty());
        EXPECT_TRUE(strings.empty());
        return;
    }
    ASSERT_EQ(records.size(), static_cast<std::size_t>(world.size()));
    ASSERT_EQ(strings.size(), static_cast<std::size_t>(world.size()));
    for (int r = 0; r < world.size(); ++r) {
        const auto at = static_cast<std::size_t>(r);
        EXPECT_EQ(records[at].rank, r);
        EXPECT_EQ(strings[at], bytes_of(at, size(r)));
    }
}

TEST(Communicator, broadcasts_any_size) {
    const auto world = Communicator::world();
    for (const std::size_t n : {0UL, 1UL, 4097UL, 10000001UL}) {
        Bytestring value = bytes_of(n, world.rank() == 0 ? n : 5);
        world.broadcast(value, soon(), "broadcast");
        EXPECT_EQ(value, bytes_of(n, n));
    }
}

TEST(Communicator, exchanges_with_some_ranks_only) {
    const auto world = Communicator::world();
    // Each rank writes to the next one and to itself.
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    const auto message = [](int from, int to) {
        const auto n = static_cast<std::size_t>(from) * 100000 + static_cast<std::size_t>(to);
        return bytes_of(n, n);
    };
    for (int round = 0; round < 3; ++round) {
        const std::map<int, Bytestring> outgoing = {
            {next, message(world.rank(), next)},
            {world.rank(), message(world.rank(), world.rank())}};
        const std::vector<int> sources = {previous, world.rank()};
        const auto received = world.exchange(outgoing, sources, 7, soon(), "exchange");
        ASSERT_EQ(received.size(), 2U);
        EXPECT_EQ(received.at(previous), message(previous, world.rank()));
        EXPECT_EQ(received.at(world.rank()), message(world.rank(), world.rank()));
    }
}

TEST(Communicator, a_group_has_its_own_ranks_and_the_labels_of_its_parent) {
    auto world = Communicator::world();
    world.set_labels([](int r) { return "rank " + std::to_string(r) + " (host n1)"; });
    if (world.rank() == 0) return;
    std::vector<int> ranks(static_cast<std::size_t>(world.size()) - 1);
    std::iota(ranks.begin(), ranks.end(), 1);
    const auto group = world.create_group(ranks, 3);
    EXPECT_EQ(group.rank(), world.rank() - 1);
    EXPECT_EQ(group.size(), world.size() - 1);
    EXPECT_EQ(group.label(0), "rank 1 (host n1)");
    EXPECT_EQ(group.sum(1, soon(), "sum"), world.size() - 1);
}

TEST(Communicator, idle_runs_between_polls_and_may_end_a_wait) {
    auto world = Communicator::world();
    if (world.rank() == 0) {
        int calls = 0;
        world.set_idle([&] {
            if (++calls == 10) throw TransportError("enough");
        });
        EXPECT_THROW(world.barrier(soon(), "barrier"), TransportError);
        EXPECT_EQ(calls, 10);
    }
    Communicator::world().barrier(soon(), "others wait");
}

TEST(Communicator, an_expired_barrier_names_the_rank_that_did_not_come_on_every_rank) {
    auto world = Communicator::world();
    world.set_labels([](int r) { return "rank " + std::to_string(r) + " (host n1)"; });
    const auto rest = Communicator::world();
    const int absent = world.size() - 1;
    std::string text;
    if (world.rank() == absent) {
        // Busy elsewhere, without MPI, until the others have given up.
        rest.barrier(soon(), "others gave up");
        // Late and alone. This barrier may still end, as the others have sent their part; the next
        // cannot, and the verdict is there long before its deadline.
        const auto start = Clock::now();
        text = deadline_text([&] {
            world.barrier(soon(), "meet");
            world.barrier(soon(), "meet again");
        });
        EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
    } else {
        text = deadline_text([&] { world.barrier(Deadline(milliseconds(300)), "meet"); });
        rest.barrier(soon(), "others gave up");
    }
    EXPECT_EQ(text,
              "no answer from rank " + std::to_string(absent) + " (host n1) in meet within 0.3 s");
}

TEST(Communicator, an_expired_wait_ends_waits_with_later_deadlines) {
    const auto world = Communicator::world();
    const auto rest = Communicator::world();
    const int absent = world.size() - 1;
    std::string text;
    if (world.rank() == absent) {
        rest.barrier(soon(), "others gave up");
    } else {
        const auto start = Clock::now();
        const bool first = world.rank() == world.size() - 2;
        const Deadline deadline(first ? milliseconds(300) : milliseconds(60000));
        text = deadline_text([&] { world.barrier(deadline, "meet"); });
        EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
        EXPECT_EQ(text, "no answer from rank " + std::to_string(absent) + " in meet within 0.3 s");
        rest.barrier(soon(), "others gave up");
    }
}

TEST(Communicator, an_expired_wait_says_so_where_every_rank_answers) {
    const auto world = Communicator::world();
    std::string text;
    if (world.rank() == world.size() - 1) {
        text = deadline_text([&] {
            for (const Deadline end = soon(); !end.passed();) world.listen();
        });
    } else {
        text = deadline_text([&] { world.barrier(Deadline(milliseconds(300)), "meet"); });
    }
    EXPECT_EQ(text, "meet did not end within 0.3 s though every rank answers");
}

TEST(Communicator, an_alarm_ends_the_loops_of_all_that_listen_and_no_collective) {
    const auto world = Communicator::world();
    const int last = world.size() - 1;
    std::string text;
    if (world.rank() == last) {
        world.raise_alarm();
    } else {
        try {
            for (const Deadline end = soon(); !end.passed();) world.listen();
        } catch (const AlarmError& error) {
            text = error.what();
        }
        EXPECT_EQ(text, "rank " + std::to_string(last) + " has failed");
    }
    world.barrier(soon(), "after the alarm");
}

TEST(Communicator, one_rank_that_is_told_to_stop_ends_the_loops_of_all) {
    auto world = Communicator::world();
    const int last = world.size() - 1;
    bool is_told = false;
    world.set_stop([&]() -> std::optional<Error> {
        if (!is_told) return std::nullopt;
        return Error(ExitCode{143}, "told");
    });
    const auto begin = Clock::now();
    std::string text;
    try {
        for (const Deadline end = soon(); !end.passed();) {
            is_told = world.rank() == last && Clock::now() - begin > milliseconds(50);
            world.listen();
        }
    } catch (const Error& error) {
        text = error.what();
    }
    EXPECT_EQ(text, world.rank() == last ? "told" : "rank " + std::to_string(last) + " has failed");
    is_told = true;
    world.barrier(soon(), "agreed");
}

TEST(Communicator, a_rank_that_is_told_to_stop_does_not_wait_long_for_one_that_is_stuck) {
    auto world = Communicator::world();
    const auto begin = Clock::now();
    world.set_stop([] { return Error(ExitCode{143}, "told"); });
    const bool is_stuck = world.rank() == world.size() - 1;
    // Answers nobody until the others have given up.
    if (is_stuck) std::this_thread::sleep_for(Communicator::kLeave + std::chrono::seconds(4));
    const auto text = deadline_text([&] {
        world.barrier(Deadline(std::chrono::minutes(5)), "meet");
        // The others have sent their part of that one before they gave up.
        world.barrier(Deadline(std::chrono::minutes(5)), "meet again");
    });
    if (!is_stuck) {
        EXPECT_LT(Clock::now() - begin, Communicator::kLeave + std::chrono::seconds(4));
    }
    EXPECT_EQ(text,
              "no answer from rank " + std::to_string(world.size() - 1) + " in meet within 5 s");
}

TEST(Communicator, an_expired_exchange_says_whom_it_waited_for) {
    const auto world = Communicator::world();
    const auto text = deadline_text([&] {
        const std::vector<int> sources = {world.size() - 1};
        if (world.rank() == 0)
            (void)world.exchange({}, sources, 1, Deadline(milliseconds(300)), "keys");
        for (const Deadline end = soon(); !end.passed();) world.listen();
    });
    EXPECT_EQ(text,
              "keys did not end within 0.3 s though every rank answers: rank 0 waits for rank " +
                  std::to_string(world.size() - 1));
}

}  // namespace
}  // namespace weightlift::mpi
