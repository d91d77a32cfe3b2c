// Messages between ranks of one build: values one after the other, read back in the same order.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "weightlift/base/error.hpp"

namespace weightlift::mpi {

class Writer {
public:
    template <class T>
    requires std::is_trivially_copyable_v<T>
    void put(const T& value) {
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        out_.insert(out_.end(), bytes, bytes + sizeof(T));
    }
    void put(const std::string& text) {
        put(static_cast<std::uint32_t>(text.size()));
        const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
        out_.insert(out_.end(), bytes, bytes + text.size());
    }
    /// A count, then the values. Their padding bytes are sent as they are.
    template <class T>
    requires std::is_trivially_copyable_v<T>
    void put_all(std::span<const T> values) {
        put(static_cast<std::uint64_t>(values.size()));
        const auto bytes = std::as_bytes(values);
        out_.insert(out_.end(), bytes.begin(), bytes.end());
    }
    [[nodiscard]] std::vector<std::byte> take() { return std::move(out_); }

private:
    std::vector<std::byte> out_;
};

/// TransportError, naming `what` the message is, where it is shorter than it says.
class Reader {
public:
    Reader(std::span<const std::byte> bytes, const char* what) : left_(bytes), what_(what) {}
    template <class T>
    requires std::is_trivially_copyable_v<T>
    void get(T& value) { std::memcpy(&value, next(sizeof(T)).data(), sizeof(T)); }
    void get(std::string& text) {
        std::uint32_t size = 0;
        get(size);
        const auto bytes = next(size);
        text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    template <class T>
    requires std::is_trivially_copyable_v<T>
    void get_all(std::vector<T>& values) {
        std::uint64_t count = 0;
        get(count);
        if (count > left_.size() / sizeof(T)) fail();
        const auto bytes = next(count * sizeof(T));
        values.resize(count);
        if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    [[nodiscard]] std::size_t left() const { return left_.size(); }

private:
    [[noreturn]] void fail() const {
        throw TransportError(std::string("a ") + what_ + " is shorter than it says");
    }
    std::span<const std::byte> next(std::size_t size) {
        if (size > left_.size()) fail();
        const auto bytes = left_.first(size);
        left_ = left_.subspan(size);
        return bytes;
    }
    std::span<const std::byte> left_;
    const char* what_;
};

}  // namespace weightlift::mpi
