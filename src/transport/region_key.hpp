// Opaque keys: a backend's own struct inside RegionKey, told from other backends' by a tag.
#pragma once

#include <cstring>
#include <optional>
#include <type_traits>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport {

/// T is trivially copyable, without padding that matters, and has `static constexpr std::uint32_t
/// kTag`.
template <class T>
[[nodiscard]] RegionKey pack_key(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    RegionKey key;
    const std::uint32_t tag = T::kTag;
    static_assert(sizeof tag + sizeof value <= sizeof key.blob);
    std::memcpy(key.blob.data(), &tag, sizeof tag);
    std::memcpy(key.blob.data() + sizeof tag, &value, sizeof value);
    key.size = sizeof tag + sizeof value;
    return key;
}

/// Nothing where another backend, or nobody, made the key.
template <class T>
[[nodiscard]] std::optional<T> unpack_key(const RegionKey& key) {
    std::uint32_t tag = 0;
    if (key.size != sizeof tag + sizeof(T)) return std::nullopt;
    std::memcpy(&tag, key.blob.data(), sizeof tag);
    if (tag != T::kTag) return std::nullopt;
    T value;
    std::memcpy(&value, key.blob.data() + sizeof tag, sizeof value);
    return value;
}

}  // namespace weightlift::transport
