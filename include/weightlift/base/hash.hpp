// The two hashes everything derives its keys from. Their values are part of the file formats.
#pragma once

#include <cstdint>
#include <string_view>

namespace weightlift {

/// Finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit integers.
[[nodiscard]] constexpr std::uint64_t splitmix64(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/// FNV-1a over the bytes, then mixed.
[[nodiscard]] constexpr std::uint64_t hash_name(std::string_view name) {
    std::uint64_t h = 0xcbf29ce484222325ULL;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return splitmix64(h);
}

/// Order-dependent combination, for mixing the fields of one record.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
    return splitmix64(seed ^ splitmix64(value));
}

}  // namespace weightlift
