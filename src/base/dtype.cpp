#include "weightlift/base/dtype.hpp"

#include <array>
#include <utility>

namespace weightlift {

std::string_view to_string(DType dtype) {
    switch (dtype) {
        case DType::BF16: return "bf16";
        case DType::F16: return "fp16";
        case DType::F32: return "fp32";
        case DType::F8E4M3: return "fp8";
    }
    return "?";
}

std::optional<DType> parse_dtype(std::string_view name) {
    using enum DType;
    static constexpr std::array<std::pair<std::string_view, DType>, 8> names{{
        {"bf16", BF16},
        {"bfloat16", BF16},
        {"fp16", F16},
        {"float16", F16},
        {"fp32", F32},
        {"float32", F32},
        {"fp8", F8E4M3},
        {"float8_e4m3fn", F8E4M3},
    }};
    for (const auto& [text, dtype] : names)
        if (text == name) return dtype;
    return std::nullopt;
}

}  // namespace weightlift
