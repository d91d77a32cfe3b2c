#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weightlift/base/values.hpp"
#include "weightlift/memory/arena.hpp"

namespace weightlift::memory {
namespace {

TEST(HostArena, is_zeroed_and_reserved_in_full) {
    const auto arena = make_host_arena(3 * MiB + 1);
    EXPECT_EQ(arena->bytes(), 3 * MiB + 1);
    EXPECT_EQ(arena->kind(), MemoryKind::Host);
    const std::vector<ByteBlock> all = {{0, 0, 1, arena->bytes()}};
    EXPECT_FALSE(arena->first_nonzero(all));
    struct stat status {};
    ASSERT_EQ(::fstat(arena->share_fd(), &status), 0);
    EXPECT_GE(static_cast<Bytes>(status.st_blocks) * 512, arena->bytes());
    EXPECT_EQ(status.st_nlink, 0U) << "the pages have a name, which would outlive the process";
}

TEST(HostArena, can_be_mapped_through_proc) {
    const auto arena = make_host_arena(2 * MiB);
    const std::string path =
        "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(arena->share_fd());
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0) << std::strerror(errno);
    void* const other = ::mmap(nullptr, 2 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(other, MAP_FAILED);
    static_cast<char*>(other)[12345] = 'w';
    EXPECT_EQ(arena->data()[12345], std::byte{'w'});
    ::munmap(other, 2 * MiB);
    ::close(fd);
}

TEST(HostArena, may_be_empty) {
    const auto arena = make_host_arena(0);
    EXPECT_EQ(arena->bytes(), 0U);
    arena->fill({}, 1);
    EXPECT_FALSE(arena->compare({}, 1));
}

TEST(HostArena, larger_than_the_machine_is_refused_with_both_numbers) {
    const Bytes too_much = available_host_memory() + GiB;
    try {
        (void)make_host_arena(too_much);
        FAIL() << "an arena larger than memory was made";
    } catch (const ConfigError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find(std::to_string(too_much)), std::string::npos) << text;
        EXPECT_NE(text.find("available"), std::string::npos) << text;
    }
}

TEST(HostArena, a_flipped_byte_is_found) {
    const auto arena = make_host_arena(8192);
    const std::vector<Block> blocks = {
        {64, 1024, {{0, 7}, {0, 512}}, DType::BF16, hash_name("model.norm.weight")}};
    arena->fill(blocks, 4);
    EXPECT_FALSE(arena->compare(blocks, 4));
    arena->flip(64 + 1024 * 3 + 10);
    const auto found = arena->compare(blocks, 4);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->row, 3U);
    EXPECT_EQ(found->column, 5U);
    EXPECT_EQ(found->count, 1U);
}

TEST(HostArena, a_block_outside_is_our_own_bug) {
    const auto arena = make_host_arena(1000);
    const std::vector<Block> blocks = {{0, 100, {{0, 10}, {0, 51}}, DType::BF16, 0}};
    EXPECT_THROW(arena->fill(blocks, 1), Error);
}

}  // namespace
}  // namespace weightlift::memory
