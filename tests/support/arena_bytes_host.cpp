// For builds without CUDA.
#include <algorithm>

#include "support/arena_bytes.hpp"

namespace weightlift::memory {

std::vector<std::byte> download(const Arena& arena) {
    return {arena.data(), arena.data() + arena.bytes()};
}

void upload(Arena& arena, const std::vector<std::byte>& bytes) {
    std::copy(bytes.begin(), bytes.end(), arena.data());
}

}  // namespace weightlift::memory
