#include "weightlift/session/key_exchange.hpp"

#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "support/hand_layouts.hpp"
#include "unit/layout/refused.hpp"

namespace weightlift::session {
namespace {

using layout::Side;
using test::hand_model;
using test::matrix;

ParameterEntry entry(std::string name, Bytes offset) {
    return {std::move(name), "plain", DType::BF16, {{4, 8, 0}, 2}, offset, 0x1234};
}

KeyTable example() {
    KeyTable table;
    table.region_bytes = 0x0102030405060708ULL;
    table.key.size = 5;
    std::memcpy(table.key.blob.data(), "\x01\x00\xff\x7f\x05", 5);
    table.parameters = {entry("model.embed_tokens.weight", 0), entry("", 256), entry("b", ~0ULL)};
    table.parameters[1].dtype = DType::F8E4M3;
    table.parameters[1].format = "swizzled";
    table.parameters[1].shape = {{7, 0, 0}, 1};
    table.parameters[2].shape = {{2, 3, 5}, 3};
    return table;
}

void expect_equal(const KeyTable& a, const KeyTable& b) {
    EXPECT_EQ(a.region_bytes, b.region_bytes);
    EXPECT_EQ(a.key.size, b.key.size);
    EXPECT_EQ(a.key.blob, b.key.blob);
    EXPECT_EQ(a.parameters, b.parameters);
}

TEST(KeyTable, comes_back_as_it_was_sent) {
    expect_equal(deserialize(serialize(example())), example());
    expect_equal(deserialize(serialize({})), {});
}

TEST(KeyTable, has_one_serialized_form) {
    // Also where the memory of the values was something else before.
    alignas(KeyTable) std::byte memory[sizeof(KeyTable)];
    std::memset(memory, 0xaa, sizeof memory);
    auto* table = new (memory) KeyTable(example());
    EXPECT_EQ(serialize(*table), serialize(example()));
    table->~KeyTable();
}

TEST(KeyTable, cut_short_anywhere_is_refused) {
    const mpi::Bytestring whole = serialize(example());
    for (std::size_t n = 0; n < whole.size(); ++n) {
        const mpi::Bytestring part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
        EXPECT_THROW((void)deserialize(part), TransportError) << n << " of " << whole.size();
    }
}

TEST(KeyTable, with_more_behind_it_is_refused) {
    mpi::Bytestring bytes = serialize(example());
    bytes.push_back(std::byte{0});
    EXPECT_THROW((void)deserialize(bytes), TransportError);
}

TEST(KeyTable, of_foreign_bytes_never_crashes) {
    // Every byte set to each of some values: either refused, or a table that can be compared.
    const mpi::Bytestring whole = serialize(example());
    int refused = 0;
    for (std::size_t i = 0; i < whole.size(); ++i)
        for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
            mpi::Bytestring bytes = whole;
            bytes[i] = static_cast<std::byte>(value);
            try {
                const KeyTable table = deserialize(bytes);
                EXPECT_LE(table.key.size, table.key.blob.size());
                for (const ParameterEntry& e : table.parameters) {
                    EXPECT_GE(e.shape.dimensions, 0);
                    EXPECT_LE(e.shape.dimensions, 3);
                    EXPECT_NE(to_string(e.dtype), "?");
                }
                check_parameters(example().parameters, table.parameters, "rank 1");
            } catch (const TransportError&) {
                ++refused;
            } catch (const ConfigError&) {
            }
        }
    EXPECT_GT(refused, 0);
}

struct Difference {
    const char* name;
    std::function<void(ParameterEntry&)> change;
    const char* message;
};

TEST(CheckParameters, name_the_first_difference_with_both_values) {
    const std::vector<ParameterEntry> ours{entry("a", 0), entry("b", 256)};
    EXPECT_NO_THROW(check_parameters(ours, ours, "rank 9"));
    for (const Difference& row : {
             Difference{"name", [](auto& e) { e.name = "c"; },
                        "parameter b: name is b here but c on rank 9 (host n1)"},
             {"format", [](auto& e) { e.format = "packed"; },
              "parameter b: format is plain here but packed on rank 9"},
             {"dtype", [](auto& e) { e.dtype = DType::F32; },
              "parameter b: dtype is bf16 here but fp32 on rank 9"},
             {"shape",
              [](auto& e) {
                  e.shape = {{4, 16, 0}, 2};
              },
              "parameter b: shape is [4, 8] here but [4, 16] on rank 9"},
             {"dimensions",
              [](auto& e) {
                  e.shape = {{32, 0, 0}, 1};
              },
              "parameter b: shape is [4, 8] here but [32] on rank 9"},
             {"pieces", [](auto& e) { e.pieces = 5; },
              "parameter b: layout digest is 4660 here but 5 on rank 9"},
             {"offset", [](auto& e) { e.offset = 512; },
              "parameter b: offset in the region is 256 here but 512 on rank 9"},
         }) {
        auto theirs = ours;
        row.change(theirs[1]);
        EXPECT_REFUSAL((check_parameters(ours, theirs, "rank 9 (host n1)"), 0), row.message);
    }
}

TEST(CheckParameters, refuse_other_numbers_of_parameters) {
    const std::vector<ParameterEntry> one{entry("a", 0)}, two{entry("a", 0), entry("b", 256)};
    EXPECT_REFUSAL((check_parameters(two, one, "rank 9"), 0),
                   "2 parameters are written here but 1 are offered by rank 9");
    EXPECT_REFUSAL((check_parameters(one, two, "rank 9"), 0),
                   "1 parameters are written here but 2 are offered by rank 9");
    EXPECT_REFUSAL((check_parameters(one, {}, "rank 9"), 0), "0 are offered");
}

TEST(MakeEntry, tells_layouts_of_one_shape_apart) {
    const auto model = hand_model({matrix("t", 4, 8), matrix("u", 4, 8)});
    const auto of = [&](const char* tensor, Box box) {
        const auto layout = test::hand_layout(Side::Rollout, model, 1, {{"p", tensor, box, {0}}});
        return make_entry(layout, plan::ArenaMap(layout, 0), 0);
    };
    const ParameterEntry upper = of("t", {{0, 2}, {0, 8}});
    EXPECT_EQ(upper, of("t", {{0, 2}, {0, 8}}));
    EXPECT_EQ(upper.name, "p");
    EXPECT_EQ(upper.shape.values()[0], 2U);
    for (const ParameterEntry& other : {of("t", {{2, 4}, {0, 8}}), of("u", {{0, 2}, {0, 8}})}) {
        EXPECT_EQ(upper.shape, other.shape);
        EXPECT_NE(upper.pieces, other.pieces);
    }
}

}  // namespace
}  // namespace weightlift::session
