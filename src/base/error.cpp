#include "weightlift/base/error.hpp"

#include <fmt/format.h>

namespace weightlift {

void fail_invariant(const char* expression, const std::source_location& where) {
    throw Error(ExitCode::Internal, fmt::format("internal error: {} does not hold ({}:{})",
                                                expression, where.file_name(), where.line()));
}

}  // namespace weightlift
