// Arena: the memory of one rank's weights, and the bulk operations that run where that memory is.
// One virtual call per batch of blocks, none per block. Host today; GPUs implement the same
// interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "weightlift/base/box.hpp"
#include "weightlift/base/bytes.hpp"
#include "weightlift/base/dtype.hpp"

namespace weightlift::memory {

enum class MemoryKind : std::uint8_t { Host, Cuda };

/// A box of a logical tensor lying in the arena: row r of the box starts at offset + r * pitch.
struct Block {
    Bytes offset = 0;
    Bytes pitch = 0;
    Box box;
    DType dtype = DType::BF16;
    std::uint64_t tensor =
        0;  ///< key of its values and fingerprint (hash_name of the tensor's name)
};

/// First wrong element of a compare, and how many there are in all.
struct Mismatch {
    std::size_t block = 0;                   ///< index into the span compared
    std::uint64_t row = 0, column = 0;       ///< global, in the logical tensor
    std::uint32_t expected = 0, actual = 0;  ///< bit patterns
    std::uint64_t count = 0;
};

/// A strided byte range of the arena.
struct ByteBlock {
    Bytes offset = 0;
    Bytes pitch = 0;
    std::uint64_t rows = 0;
    Bytes row_bytes = 0;
};

/// A part of GPU memory as NICs take it.
struct DmaBuf {
    int fd = -1;       ///< the caller closes it
    Bytes offset = 0;  ///< where the part begins in it
};

/// What it takes until this memory's own device sees what a NIC has written.
struct RemoteWrites {
    bool are_ordered = true;  ///< a completion is enough
    bool can_flush = false;   ///< flush_remote_writes() works
    bool two_paths =
        false;  ///< NICs reach it by two ways (C2C, Data Direct): a flush sees only one
};

class Arena {
public:
    virtual ~Arena() = default;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    [[nodiscard]] virtual MemoryKind kind() const = 0;
    [[nodiscard]] virtual std::byte* data() const = 0;
    [[nodiscard]] virtual Bytes bytes() const = 0;
    /// A file descriptor that another process of this host can map (through /proc/PID/fd), or -1.
    [[nodiscard]] virtual int share_fd() const = 0;

    /// Writes the values of `version` (base/values.hpp).
    virtual void fill(std::span<const Block> blocks, std::uint64_t version) = 0;
    /// Sets every byte of the blocks to 0xff, which no value equals.
    virtual void poison(std::span<const Block> blocks) = 0;
    /// sums[i] += fingerprint of block i's part of its tensor, mod 2^64. sums.size() ==
    /// blocks.size().
    virtual void fingerprint(std::span<const Block> blocks,
                             std::span<std::uint64_t> sums) const = 0;
    /// Compares every element with the values of `version`.
    [[nodiscard]] virtual std::optional<Mismatch> compare(std::span<const Block> blocks,
                                                          std::uint64_t version) const = 0;
    /// Offset of the first byte of the blocks that is not zero.
    [[nodiscard]] virtual std::optional<Bytes> first_nonzero(
        std::span<const ByteBlock> blocks) const = 0;
    /// Inverts the bits of one byte (fault injection).
    virtual void flip(Bytes offset) = 0;

    /// Bytes of one physical allocation: no dma-buf spans two. All are of this size but the last.
    [[nodiscard]] virtual Bytes extent() const { return bytes(); }
    /// Page-aligned part inside one extent. Absent for host memory, and where the driver cannot.
    [[nodiscard]] virtual std::optional<DmaBuf> dmabuf(Bytes /*offset*/, Bytes /*bytes*/) const {
        return std::nullopt;
    }
    [[nodiscard]] virtual RemoteWrites remote_writes() const { return {}; }
    /// Waits until what NICs have written is seen by the owning device. Only where can_flush.
    virtual void flush_remote_writes() {}

protected:
    Arena() = default;
};

/// Page-backed shared host memory (memfd), reserved in full and zeroed: a machine that cannot hold
/// it gives ConfigError naming the bytes asked for, never SIGBUS. Nothing outlives the process.
/// bytes may be 0. Huge pages are asked for where the system allows them.
[[nodiscard]] std::unique_ptr<Arena> make_host_arena(Bytes bytes);

/// Memory that this process may still take: the least of MemAvailable and the cgroup limits (v1,
/// v2) minus their use. Bytes. `root` goes before /proc and the mount points (for tests).
[[nodiscard]] Bytes available_host_memory(const std::string& root = "");

}  // namespace weightlift::memory
