#include "weightlift/model/model_spec.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/base/error.hpp"
#include "weightlift/base/hash.hpp"
#include "weightlift/base/values.hpp"

namespace weightlift::model {
namespace {

ModelSpec bare(std::vector<TensorSpec> tensors) {
    return {"bare", std::move(tensors), std::nullopt};
}

std::string error_of(std::vector<TensorSpec> tensors) {
    try {
        (void)bare(std::move(tensors));
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(ModelSpec, counts_parameters_and_bytes_by_each_tensors_own_dtype) {
    const ModelSpec spec = bare({{.name = "a", .dtype = DType::BF16, .rows = 3, .columns = 5},
                                 {.name = "b", .dtype = DType::F32, .dimensions = 1, .columns = 7},
                                 {.name = "c", .dtype = DType::F8E4M3, .rows = 2, .columns = 2}});
    EXPECT_EQ(spec.parameter_count(), 15U + 7U + 4U);
    EXPECT_EQ(spec.bytes(), 30U + 28U + 4U);
    EXPECT_EQ(spec.tensor(0).box(), (Box{{0, 3}, {0, 5}}));
    EXPECT_FALSE(spec.architecture().has_value());
}

TEST(ModelSpec, finds_tensors_by_name) {
    const ModelSpec spec =
        bare({{.name = "x", .columns = 1}, {.name = "a.name.beyond.small.strings", .columns = 1}});
    EXPECT_EQ(spec.find("x"), TensorId{0});
    EXPECT_EQ(spec.find("a.name.beyond.small.strings"), TensorId{1});
    EXPECT_EQ(spec.find("y"), std::nullopt);
    EXPECT_EQ(spec.id("x"), TensorId{0});
    EXPECT_EQ(spec.key(1), hash_name("a.name.beyond.small.strings"));
}

TEST(ModelSpec, names_survive_a_move) {
    ModelSpec first = bare({{.name = "x", .columns = 1}, {.name = "y", .columns = 1}});
    const ModelSpec second = std::move(first);
    EXPECT_EQ(second.find("y"), TensorId{1});
}

TEST(ModelSpec, takes_an_unknown_name_in_id_for_our_bug) {
    const ModelSpec spec = bare({{.name = "x", .columns = 1}});
    try {
        (void)spec.id("y");
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::Internal);
        EXPECT_STREQ(error.what(), "internal error: bare has no tensor y");
    }
}

TEST(ModelSpec, accepts_the_largest_sizes) {
    const std::uint64_t rows = std::uint64_t{1} << 31;
    const ModelSpec spec =
        bare({{.name = "x", .dtype = DType::F8E4M3, .rows = rows, .columns = kMaxColumns - 1}});
    EXPECT_EQ(spec.bytes(), rows * (kMaxColumns - 1));
}

TEST(ModelSpec, refuses_what_breaks_its_invariants) {
    struct Row {
        const char* name;
        std::vector<TensorSpec> tensors;
        const char* error;
    };
    const std::uint64_t huge = std::uint64_t{1} << 32;
    const std::vector<Row> rows{
        {"a name twice",
         {{.name = "x", .columns = 1}, {.name = "x", .columns = 2}},
         "bare: tensor x is there twice, names must be unique"},
        {"no columns",
         {{.name = "x", .rows = 4}},
         "bare: tensor x is 4 x 0, sizes must be positive"},
        {"no rows",
         {{.name = "x", .rows = 0, .columns = 4}},
         "bare: tensor x is 0 x 4, sizes must be positive"},
        {"three dimensions",
         {{.name = "x", .dimensions = 3, .columns = 4}},
         "bare: tensor x has 3 dimensions, must have 1 or 2"},
        {"a vector of two rows",
         {{.name = "x", .dimensions = 1, .rows = 2, .columns = 4}},
         "bare: tensor x has 1 dimension and 2 rows, must have 1 row"},
        {"too many columns",
         {{.name = "x", .columns = kMaxColumns}},
         "bare: tensor x has 4294967296 columns, must have fewer than 4294967296"},
        {"elements beyond 64 bits",
         {{.name = "x", .rows = huge * 2, .columns = huge - 1}},
         "bare: tensor x is 8589934592 x 4294967295, its bytes must fit in 64 bits"},
        {"bytes beyond 64 bits",
         {{.name = "x", .dtype = DType::F32, .rows = huge / 2, .columns = huge - 1}},
         "bare: tensor x is 2147483648 x 4294967295, its bytes must fit in 64 bits"},
        {"a sum beyond 64 bits",
         {{.name = "x", .rows = huge / 4, .columns = huge - 1},
          {.name = "y", .rows = huge / 4, .columns = huge - 1},
          {.name = "z", .rows = huge / 4, .columns = huge - 1}},
         "bytes of the model: 18446744069414584320 + 9223372034707292160 does not fit in 64 bits"},
    };
    for (const Row& row : rows) EXPECT_EQ(error_of(row.tensors), row.error) << row.name;
}

}  // namespace
}  // namespace weightlift::model
