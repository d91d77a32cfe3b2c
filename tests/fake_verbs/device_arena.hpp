// Memory of a pretended GPU: NICs reach it by dma-bufs; to this processor its addresses lead
// elsewhere, to bytes that no device ever sees.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "weightlift/memory/arena.hpp"

namespace weightlift::transport {

struct DeviceMemory {
    Bytes bytes = 0;
    Bytes extent = 0;  ///< 0: all is one
    memory::RemoteWrites writes{};
    bool has_dma_buf = true;
};

class DeviceArena final : public memory::Arena {
public:
    explicit DeviceArena(const DeviceMemory& is)
        : is_(is),
          content_(memory::make_host_arena(is.bytes)),
          decoy_(memory::make_host_arena(is.bytes)) {
        std::fill_n(decoy_->data(), is.bytes, kDecoy);
    }

    [[nodiscard]] memory::MemoryKind kind() const override { return memory::MemoryKind::Cuda; }
    [[nodiscard]] std::byte* data() const override { return decoy_->data(); }
    [[nodiscard]] Bytes bytes() const override { return is_.bytes; }
    [[nodiscard]] int share_fd() const override { return -1; }
    [[nodiscard]] Bytes extent() const override { return is_.extent > 0 ? is_.extent : is_.bytes; }
    [[nodiscard]] std::optional<memory::DmaBuf> dmabuf(Bytes offset, Bytes bytes) const override {
        EXPECT_EQ(offset % kPage, 0U);
        EXPECT_GT(bytes, 0U);
        EXPECT_LE(offset + bytes, is_.bytes);
        EXPECT_EQ(offset / extent(), (offset + bytes - 1) / extent()) << "spans two extents";
        if (!is_.has_dma_buf) return std::nullopt;
        const int fd = ::fcntl(content_->share_fd(), F_DUPFD_CLOEXEC, 0);
        EXPECT_GE(fd, 0);
        return memory::DmaBuf{.fd = fd, .offset = offset};
    }
    [[nodiscard]] memory::RemoteWrites remote_writes() const override { return is_.writes; }
    void flush_remote_writes() override {
        EXPECT_TRUE(is_.writes.can_flush);
        ++flushes;
        if (on_flush) on_flush();
    }

    // Nothing of a push may touch what they do.
    void fill(std::span<const memory::Block> /*blocks*/, std::uint64_t /*version*/) override {
        ADD_FAILURE();
    }
    void poison(std::span<const memory::Block> /*blocks*/) override { ADD_FAILURE(); }
    void fingerprint(std::span<const memory::Block> /*blocks*/,
                     std::span<std::uint64_t> /*sums*/) const override {
        ADD_FAILURE();
    }
    [[nodiscard]] std::optional<memory::Mismatch> compare(
        std::span<const memory::Block> /*blocks*/, std::uint64_t /*version*/) const override {
        ADD_FAILURE();
        return std::nullopt;
    }
    [[nodiscard]] std::optional<Bytes> first_nonzero(
        std::span<const memory::ByteBlock> /*blocks*/) const override {
        ADD_FAILURE();
        return std::nullopt;
    }
    void flip(Bytes /*offset*/) override { ADD_FAILURE(); }

    /// Where the bytes are that devices see.
    [[nodiscard]] std::byte* content() const { return content_->data(); }
    [[nodiscard]] bool is_decoy_untouched() const {
        return std::all_of(data(), data() + is_.bytes, [](std::byte b) { return b == kDecoy; });
    }
    /// Descriptors of this process that dmabuf() has given out and nobody has closed.
    [[nodiscard]] int open_dma_bufs() const {
        struct stat own {};
        EXPECT_EQ(::fstat(content_->share_fd(), &own), 0);
        int open = -1;  // the arena's
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            struct stat other {};
            if (::stat(entry.path().c_str(), &other) == 0 && other.st_dev == own.st_dev &&
                other.st_ino == own.st_ino)
                ++open;
        }
        return open;
    }

    int flushes = 0;
    std::function<void()> on_flush;

private:
    static constexpr std::byte kDecoy{0xee};
    static constexpr Bytes kPage = 4096;
    DeviceMemory is_;
    std::unique_ptr<memory::Arena> content_, decoy_;
};

}  // namespace weightlift::transport
