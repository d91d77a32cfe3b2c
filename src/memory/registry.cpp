#include "weightlift/memory/registry.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/error.hpp"

namespace weightlift::memory {
namespace {

struct Entry {
    MemoryKind kind;
    std::unique_ptr<Arena> (*make)(Bytes, const ArenaOptions&);
};

constexpr std::array kEntries = {
    Entry{MemoryKind::Host,
          [](Bytes bytes, const ArenaOptions&) { return make_host_arena(bytes); }},
#if WEIGHTLIFT_WITH_CUDA
    Entry{MemoryKind::Cuda,
          [](Bytes bytes, const ArenaOptions& o) { return make_cuda_arena(bytes, o.cuda); }},
#endif
};

constexpr std::string_view name_of(MemoryKind kind) {
    return kind == MemoryKind::Host ? "host" : "cuda";
}

constexpr auto kNames = [] {
    std::array<std::string_view, kEntries.size()> names;
    std::transform(kEntries.begin(), kEntries.end(), names.begin(),
                   [](const Entry& entry) { return name_of(entry.kind); });
    return names;
}();

const Entry& entry(std::string_view name) {
    const auto* const found =
        std::find_if(kEntries.begin(), kEntries.end(),
                     [name](const Entry& candidate) { return name_of(candidate.kind) == name; });
    if (found == kEntries.end())
        throw ConfigError(fmt::format("memory {} is not one of those built in: {}", name,
                                      fmt::join(kNames, ", ")));
    return *found;
}

}  // namespace

std::span<const std::string_view> memory_kinds() { return kNames; }

std::string_view to_string(MemoryKind kind) { return name_of(kind); }

MemoryKind parse_memory_kind(std::string_view name) { return entry(name).kind; }

std::unique_ptr<Arena> make_arena(MemoryKind kind, Bytes bytes, const ArenaOptions& options) {
    return entry(name_of(kind)).make(bytes, options);
}

}  // namespace weightlift::memory
