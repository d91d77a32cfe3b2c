// The bytes of an arena as the processor sees them, wherever they are.
#pragma once

#include <vector>

#include "weightlift/memory/arena.hpp"

namespace weightlift::memory {

[[nodiscard]] std::vector<std::byte> download(const Arena& arena);
/// Returns when they are there. bytes.size() == arena.bytes().
void upload(Arena& arena, const std::vector<std::byte>& bytes);

}  // namespace weightlift::memory
