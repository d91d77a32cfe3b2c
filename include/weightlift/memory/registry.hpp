// The kinds of memory built in, by name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "weightlift/memory/arena.hpp"
#include "weightlift/memory/cuda_arena.hpp"

namespace weightlift::memory {

/// What a user may ask of an arena; a kind ignores what is not its own.
struct ArenaOptions {
    CudaOptions cuda;
};

/// "host" first.
[[nodiscard]] std::span<const std::string_view> memory_kinds();

[[nodiscard]] std::string_view to_string(MemoryKind kind);

/// Throws ConfigError, listing the kinds built in, for an unknown one.
[[nodiscard]] MemoryKind parse_memory_kind(std::string_view name);

/// Throws ConfigError where the machine has not that much, or this build not that kind.
[[nodiscard]] std::unique_ptr<Arena> make_arena(MemoryKind kind, Bytes bytes,
                                                const ArenaOptions& options);

}  // namespace weightlift::memory
