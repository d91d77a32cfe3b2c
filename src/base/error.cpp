#include "weightlift/base/error.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weightlift {

std::string name_some(std::span<const std::string> names, std::string_view what) {
    constexpr std::size_t kNamed = 4;
    const std::size_t named = std::min(kNamed, names.size());
    std::string text = fmt::format("{}", fmt::join(names.first(named), ", "));
    if (named < names.size()) text += fmt::format(" and {} more", names.size() - named);
    if (named < names.size() && !what.empty()) text += fmt::format(" {}", what);
    return text;
}

void fail_invariant(const char* expression, const std::source_location& where) {
    throw Error(ExitCode::Internal, fmt::format("internal error: {} does not hold ({}:{})",
                                                expression, where.file_name(), where.line()));
}

}  // namespace weightlift
