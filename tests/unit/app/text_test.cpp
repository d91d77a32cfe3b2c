#include "app/text.hpp"

#include <gtest/gtest.h>

#include "weightlift/record/run_record.hpp"

#include "unit/layout/refused.hpp"

namespace weightlift::app {
namespace {

using namespace std::chrono_literals;

template <class Value>
struct Read {
    const char* text;
    Value value;
};

TEST(ParseBytes, take_decimal_and_binary_units) {
    for (const Read<Bytes>& row : {
             Read<Bytes>{"4096", 4096},
             {"0", 0},
             {"7B", 7},
             {"3kB", 3000},
             {"8 GB", 8'000'000'000},
             {"1.5MB", 1'500'000},
             {"2TB", 2'000'000'000'000},
             {"4KiB", 4096},
             {"64MiB", 64 * MiB},
             {"0.5GiB", 512 * MiB},
             {"1.1GB", 1'100'000'000},
             {"4.35kB", 4350},
             {"1TiB", 1024 * GiB},
             {"9007199254740993", 9007199254740993ULL},
             {"18446744073709551615", ~0ULL},
         })
        EXPECT_EQ(parse_bytes(row.text, "--window"), row.value) << row.text;
}

TEST(ParseBytes, refuse_anything_else_naming_the_flag) {
    for (const char* text : {"", " ", "MiB", "-1", "-1MiB", "64mib", "64 M", "64MiBs", "6 4",
                             "0x10", "nan", "inf", "1,5GB", "1..5", " 4096"})
        EXPECT_REFUSAL(parse_bytes(text, "--window"),
                       "--window " + std::string(text) + ": not a size like 64MiB, 8GB or 4096");
    for (const char* text : {"18446744073709551616", "16777216TiB", "1e30", "99999999999999999TB"})
        EXPECT_REFUSAL(parse_bytes(text, "--window"), "does not fit in 64 bits");
}

TEST(ParsePercent, takes_a_number_with_or_without_its_sign) {
    EXPECT_DOUBLE_EQ(parse_percent("85%", "--min-line"), 0.85);
    EXPECT_DOUBLE_EQ(parse_percent("0.5 %", "--min-line"), 0.005);
    EXPECT_DOUBLE_EQ(parse_percent("5", "--min-line"), 0.05);
    for (const char* text : {"", "%", "-1%", "nan", "inf%", "5%%", "1001%", "5 percent"})
        EXPECT_REFUSAL(parse_percent(text, "--min-line"),
                       "--min-line " + std::string(text) + ": not a percentage like");
}

TEST(ParseDuration, take_units_and_seconds_without_one) {
    for (const Read<std::chrono::nanoseconds>& row : {
             Read<std::chrono::nanoseconds>{"60", 60s},
             {"60s", 60s},
             {"0.25 s", 250ms},
             {"500ms", 500ms},
             {"7us", 7us},
             {"2min", 120s},
             {"1.5h", 90min},
             {"0", 0ns},
             {"365", 365s},
         })
        EXPECT_EQ(parse_duration(row.text, "--timeout"), row.value) << row.text;
}

TEST(ParseDuration, refuse_anything_else_naming_the_flag) {
    for (const char* text : {"", "s", "-1", "-1s", "60 sec", "1m", "1d", "nan", "inf", "1:30"})
        EXPECT_REFUSAL(parse_duration(text, "--timeout").count(),
                       "--timeout " + std::string(text) + ": not a duration like");
    EXPECT_REFUSAL(parse_duration("9000h", "--timeout").count(), "more than a year");
    EXPECT_REFUSAL(parse_duration("1e300", "--timeout").count(), "more than a year");
}

TEST(ParseNumber, take_whole_numbers_of_the_range) {
    EXPECT_EQ(parse_number("20", 1, 100, "--iterations"), 20U);
    EXPECT_EQ(parse_number("1", 1, 100, "--iterations"), 1U);
    EXPECT_EQ(parse_number("100", 1, 100, "--iterations"), 100U);
    EXPECT_EQ(parse_number("18446744073709551615", 0, ~0ULL, "--inject"), ~0ULL);
    for (const char* text :
         {"0", "101", "", "-5", "+5", "5.0", "5x", " 5", "5 ", "1e1", "18446744073709551616"})
        EXPECT_REFUSAL(parse_number(text, 1, 100, "--iterations"),
                       "--iterations " + std::string(text) + ": not a whole number from 1 to 100");
}

TEST(Suggestion, name_what_is_near_and_nothing_that_is_far) {
    constexpr std::string_view names[] = {"--iterations", "--interval", "--verify", "--warmup"};
    struct Row {
        const char *wanted, *text;
    };
    for (const Row& row : {Row{"--iteration", ", did you mean '--iterations'?"},
                           Row{"--vrify", ", did you mean '--verify'?"},
                           Row{"--warm-up", ", did you mean '--warmup'?"},
                           Row{"--intervall", ", did you mean '--interval'?"}, Row{"push", ""},
                           Row{"x", ""}, Row{"", ""}})
        EXPECT_EQ(suggestion(row.wanted, names), row.text) << row.wanted;
    EXPECT_EQ(suggestion("anything", {}), "");
}

TEST(ShowMs, has_three_or_four_digits) {
    struct Row {
        std::uint64_t ns;
        const char* text;
    };
    for (const Row& row :
         {Row{412'000, "0.412"}, Row{0, "0.000"}, Row{1'234'567, "1.235"}, Row{9'999'400, "9.999"},
          Row{9'999'600, "10.00"}, Row{12'340'000, "12.34"}, Row{99'996'000, "100.0"},
          Row{123'456'000, "123.5"}, Row{999'960'000, "1000"}, Row{1'234'000'000, "1234"},
          Row{98'765'432'100, "98765"}, Row{record::kNotMeasured, "-"}})
        EXPECT_EQ(show_ms(row.ns), row.text) << row.ns;
}

TEST(ShowRate, is_in_gigabytes_per_second) {
    struct Row {
        double rate;
        const char* text;
    };
    for (const Row& row :
         {Row{5.61e9, "5.61"}, Row{0, "-"}, Row{0.1234e9, "0.123"}, Row{48.3e9, "48.30"},
          Row{396.5e9, "396.5"}, Row{0.9996e9, "1.00"}, Row{99.996e9, "100.0"}})
        EXPECT_EQ(show_rate(row.rate), row.text) << row.rate;
}

TEST(Align, put_the_first_column_left_and_the_others_right) {
    EXPECT_EQ(align({{"case", "bytes", "ms"}, {"a", "31.4 GB", "5"}, {"longer", "1 B", "123.4"}}),
              "case      bytes     ms\n"
              "a       31.4 GB      5\n"
              "longer      1 B  123.4\n");
}

TEST(Align, count_characters_and_not_bytes) {
    EXPECT_EQ(align({{"a…", "é"}, {"abc", "xy"}}), "a…    é\nabc  xy\n");
}

TEST(Align, print_a_row_of_one_cell_as_it_is) {
    EXPECT_EQ(align({{"a title that is long"}, {"a", "1"}, {"bb", "22"}}),
              "a title that is long\na    1\nbb  22\n");
}

TEST(Align, leave_no_blanks_at_line_ends_and_allow_short_rows) {
    EXPECT_EQ(align({{"a", "1", ""}, {"b", "22", "333"}, {"c", "4"}}),
              "a   1\nb  22  333\nc   4\n");
    EXPECT_EQ(align({}), "");
    EXPECT_EQ(align({{""}, {}}), "\n\n");
}

TEST(UtcNow, is_iso_8601) {
    const std::string now = utc_now();
    ASSERT_EQ(now.size(), 20U) << now;
    EXPECT_EQ(now[4], '-');
    EXPECT_EQ(now[10], 'T');
    EXPECT_EQ(now.back(), 'Z');
}

}  // namespace
}  // namespace weightlift::app
