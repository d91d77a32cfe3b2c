#include "weightlift/base/dtype.hpp"

#include <gtest/gtest.h>

namespace weightlift {
namespace {

struct Named {
    DType dtype;
    std::uint64_t bytes;
    const char* name;
    const char* hugging_face;
};
constexpr Named kNames[] = {
    {DType::BF16, 2, "bf16", "bfloat16"},
    {DType::F16, 2, "fp16", "float16"},
    {DType::F32, 4, "fp32", "float32"},
    {DType::F8E4M3, 1, "fp8", "float8_e4m3fn"},
};

TEST(DType, has_a_width_and_two_names) {
    for (const Named& row : kNames) {
        EXPECT_EQ(element_bytes(row.dtype), row.bytes) << row.name;
        EXPECT_EQ(to_string(row.dtype), row.name);
        EXPECT_EQ(parse_dtype(row.name), row.dtype);
        EXPECT_EQ(parse_dtype(row.hugging_face), row.dtype);
    }
}

TEST(DType, knows_no_other_names) {
    for (const char* name :
         {"", "BF16", "bf16 ", "float64", "int8", "torch.bfloat16", "float8_e5m2"})
        EXPECT_FALSE(parse_dtype(name).has_value()) << name;
}

}  // namespace
}  // namespace weightlift
