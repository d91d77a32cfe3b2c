#include "weightlift/memory/registry.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "weightlift/base/error.hpp"

namespace weightlift::memory {
namespace {

TEST(MemoryRegistry, has_host_first_and_cuda_where_built_in) {
    const auto kinds = memory_kinds();
    ASSERT_EQ(kinds.size(), WEIGHTLIFT_WITH_CUDA ? 2U : 1U);
    EXPECT_EQ(kinds.front(), "host");
    EXPECT_EQ(parse_memory_kind("host"), MemoryKind::Host);
    for (const std::string_view kind : kinds) EXPECT_EQ(to_string(parse_memory_kind(kind)), kind);
}

TEST(MemoryRegistry, makes_what_is_asked_for) {
    const auto arena = make_arena(MemoryKind::Host, 4096, {});
    EXPECT_EQ(arena->kind(), MemoryKind::Host);
    EXPECT_EQ(arena->bytes(), 4096U);
}

TEST(MemoryRegistry, refuses_unknown_kinds_by_name) {
    for (const char* name : {"gpu", "", "Host", WEIGHTLIFT_WITH_CUDA ? "hbm" : "cuda"}) {
        try {
            (void)parse_memory_kind(name);
            FAIL() << "took " << name;
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find("not one of those built in: host"),
                      std::string::npos)
                << error.what();
        }
    }
}

}  // namespace
}  // namespace weightlift::memory
