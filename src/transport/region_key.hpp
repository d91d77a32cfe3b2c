// Opaque keys: a backend's own struct inside RegionKey, told from other backends' by a tag.
#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

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

/// For backends that find a peer by its rank: only proves that both sides mean the same memory.
template <std::uint32_t Tag>
struct RankKey {
    static constexpr std::uint32_t kTag = Tag;
    std::int32_t rank = -1;
    std::int32_t unused = 0;
    Bytes bytes = 0;
};

/// The key of a destination, for a T with the `rank` that made it and the `bytes` of its region.
/// Throws TransportError, naming `backend` and the destination, where it is not one of this
/// backend, rank and size.
template <class T>
[[nodiscard]] T expect_key(const Destination& destination, std::string_view backend,
                           const std::function<std::string(int)>& label) {
    const std::string peer = label(destination.rank);
    const auto key = unpack_key<T>(destination.key);
    if (!key)
        throw TransportError(
            fmt::format("{}: the key of {} is not one of this transport", backend, peer));
    if (key->rank != destination.rank)
        throw TransportError(
            fmt::format("{}: the key of {} was made by {}", backend, peer, label(key->rank)));
    if (key->bytes != destination.region_bytes)
        throw TransportError(fmt::format("{}: the key of {} is for a region of {} bytes, not {}",
                                         backend, peer, key->bytes, destination.region_bytes));
    return *key;
}

}  // namespace weightlift::transport
