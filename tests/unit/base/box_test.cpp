// The algebra of half-open intervals and boxes, as equations over every small interval.
#include "weightlift/base/box.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace weightlift {
namespace {

/// All [b, e) with b, e < 6: empty, reversed and proper ones.
std::vector<Interval> intervals() {
    std::vector<Interval> all;
    for (std::uint64_t b = 0; b < 6; ++b)
        for (std::uint64_t e = 0; e < 6; ++e) all.push_back({b, e});
    return all;
}

bool holds(const Interval& i, std::uint64_t x) { return i.begin <= x && x < i.end; }

TEST(Interval, size_counts_the_elements_it_holds) {
    for (const Interval& i : intervals()) {
        std::uint64_t n = 0;
        for (std::uint64_t x = 0; x < 6; ++x) n += holds(i, x) ? 1 : 0;
        EXPECT_EQ(i.size(), n) << i.begin << ' ' << i.end;
        EXPECT_EQ(i.empty(), n == 0);
    }
}

TEST(Interval, intersection_holds_what_both_hold) {
    for (const Interval& a : intervals())
        for (const Interval& b : intervals())
            for (std::uint64_t x = 0; x < 6; ++x)
                ASSERT_EQ(holds(intersect(a, b), x), holds(a, x) && holds(b, x))
                    << '[' << a.begin << ", " << a.end << ") and [" << b.begin << ", " << b.end
                    << ") at " << x;
}

TEST(Interval, intersection_is_commutative_associative_and_idempotent) {
    for (const Interval& a : intervals()) {
        EXPECT_EQ(intersect(a, a), a);
        for (const Interval& b : intervals()) {
            EXPECT_EQ(intersect(a, b), intersect(b, a));
            for (const Interval& c : intervals())
                EXPECT_EQ(intersect(intersect(a, b), c), intersect(a, intersect(b, c)));
        }
    }
}

TEST(Interval, contains_every_element_of_a_part) {
    for (const Interval& a : intervals())
        for (const Interval& b : intervals()) {
            bool every = true;
            for (std::uint64_t x = 0; x < 6; ++x) every = every && (!holds(b, x) || holds(a, x));
            EXPECT_EQ(a.contains(b), every)
                << '[' << a.begin << ", " << a.end << ") [" << b.begin << ", " << b.end << ')';
        }
}

TEST(Interval, neighbours_do_not_meet) {
    EXPECT_TRUE(intersect(Interval{0, 3}, Interval{3, 5}).empty());
    EXPECT_EQ(intersect(Interval{0, 4}, Interval{3, 5}), (Interval{3, 4}));
}

TEST(Box, intersects_by_rows_and_by_columns) {
    const Box a{{0, 4}, {2, 8}}, b{{2, 6}, {0, 5}};
    EXPECT_EQ(intersect(a, b), (Box{{2, 4}, {2, 5}}));
    EXPECT_EQ(intersect(a, b).elements(), 6U);
    EXPECT_EQ(intersect(b, a), intersect(a, b));
    EXPECT_TRUE(a.contains(intersect(a, b)));
    EXPECT_TRUE(b.contains(intersect(a, b)));
}

TEST(Box, is_empty_where_either_side_is) {
    for (const Box& box : {Box{{3, 3}, {0, 5}}, Box{{0, 5}, {3, 3}}, Box{{4, 2}, {0, 5}}, Box{}}) {
        EXPECT_TRUE(box.empty());
        EXPECT_EQ(box.elements(), 0U);
        // What holds nothing is inside of everything.
        EXPECT_TRUE((Box{{1, 2}, {1, 2}}.contains(box)));
    }
    // Overlap in columns alone is none.
    EXPECT_TRUE(intersect(Box{{0, 2}, {0, 9}}, Box{{2, 4}, {0, 9}}).empty());
}

TEST(Box, contains_needs_both_sides) {
    const Box whole{{2, 6}, {10, 20}};
    EXPECT_TRUE(whole.contains(whole));
    EXPECT_TRUE(whole.contains({{3, 4}, {19, 20}}));
    EXPECT_FALSE(whole.contains({{1, 4}, {11, 12}}));
    EXPECT_FALSE(whole.contains({{3, 4}, {19, 21}}));
}

TEST(Box, counts_more_elements_than_32_bits_hold) {
    const Box embedding{{0, 163840}, {0, 7168 * 1024}};
    EXPECT_EQ(embedding.elements(), 163840ULL * 7168 * 1024);
}

}  // namespace
}  // namespace weightlift
